#include "controller/ask_store.h"

#include "base/text.h"

namespace lockstep {

namespace {

constexpr StepNo kNoStep = -100;  // of a row that is about the job itself

// A step's command line is its owner's, as in the records; a job's command is public.
void hide_private(JobRow& row, const User* viewer) {
  const bool own = viewer && row.uid == viewer->uid && row.user == viewer->meta.name;
  if (!own && row.step != kNoStep)
    row.command.clear();
}

}  // namespace

Result<std::vector<JobRow>> ask_store(HistoryStore& store, HistoryQuery query, std::size_t rows_max,
                                      const Viewer& viewer, const Tables& tables) {
  const std::size_t asked = query.limit;
  query.limit = std::min(asked, rows_max + 1);
  auto rows = TRY(store.query(query));
  if (rows.size() > rows_max)
    return Error{
        Errc::kExhausted,
        format("history has more than {} rows for this: narrow it by time (-S, -E), user, account or job", rows_max),
        "limit"};
  if (!viewer.admin)
    for (JobRow& row : rows) hide_private(row, tables.user(viewer.user));
  return rows;
}

}  // namespace lockstep
