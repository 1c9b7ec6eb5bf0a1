#include "controller/ask_store.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {

Error reply_too_long(std::size_t bytes_max) {
  return {Errc::kExhausted,
          format("the answer would be longer than {} MiB: ask for less, by user, partition, state, time or job",
                 bytes_max >> 20),
          "reply"};
}

Result<std::vector<JobRow>> ask_store(HistoryStore& store, HistoryQuery query, const AnswerMost& most,
                                      const Viewer& viewer, const Tables& tables) {
  query.limit = std::min(query.limit, most.rows + 1);
  query.words_max = most.bytes;
  if (!viewer.admin) {
    const User* user = viewer.only_on ? nullptr : tables.user(viewer.user);
    query.commands_of = user ? HistoryQuery::Person{user->uid, user->meta.name} : HistoryQuery::Person{UINT32_MAX, {}};
  }
  auto rows = store.query(query);
  if (!rows.ok() && rows.error().field == "reply")
    return reply_too_long(most.bytes);
  if (rows.ok() && rows->size() > most.rows)
    return Error{
        Errc::kExhausted,
        format("history has more than {} rows for this: narrow it by time (-S, -E), user, account or job", most.rows),
        "limit"};
  // Of how a run ended, others are told the word (Job::end_reason).
  if (rows.ok() && query.commands_of)
    for (JobRow& row : *rows)
      if (row.uid != query.commands_of->uid || row.user != query.commands_of->name)
        row.reason.resize(std::min(row.reason.size(), row.reason.find(' ')));
  return rows;
}

}  // namespace lockstep
