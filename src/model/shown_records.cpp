#include "model/shown_records.h"

#include "model/job.h"

namespace lockstep {

ShownRecords shown_records(const Tables& tables, const Object& object) {
  ShownRecords out;
  for (const Shown& shown : object.shows) {
    if (shown.kind == Kind::kJob)
      if (const auto at = tables.jobs.find(shown.job); at != tables.jobs.end())
        out.job = at->second;
    if (shown.kind == Kind::kTask)
      if (const auto at = tables.tasks.find({shown.job, shown.group, shown.index}); at != tables.tasks.end())
        out.task = at->second;
  }
  if (!out.job)
    return out;
  const Node* node = nullptr;
  if (out.job->allocation && !out.job->allocation->grants.empty())
    node = tables.node(out.job->allocation->grants.front().node);
  else if (out.job->promise && out.job->promise->held && !out.job->promise->grants.empty())
    node = tables.node(out.job->promise->grants.front().node);
  else if (!out.job->ran_on.empty())
    node = tables.node(std::string_view(out.job->ran_on));
  if (node)
    if (const auto at = tables.nodes.find(node->id); at != tables.nodes.end())
      out.node = at->second;
  return out;
}

}  // namespace lockstep
