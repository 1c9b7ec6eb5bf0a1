#include "controller/past_ends.h"

#include <algorithm>

namespace lockstep {

namespace {

bool is_met(const Dependency& d, PastEnd end) {
  switch (d.type) {
    case Dependency::Type::kAfterOk:
    case Dependency::Type::kAfterCorr: return end == PastEnd::kSucceeded;
    case Dependency::Type::kAfterNotOk: return end == PastEnd::kFailed;
    case Dependency::Type::kAfter:
    case Dependency::Type::kAfterAny:
    case Dependency::Type::kSingleton: break;
  }
  return true;
}

}  // namespace

std::vector<Prerequisite> not_listed(const Tables& tables, const std::vector<Dependency>& dependencies) {
  std::vector<Prerequisite> out;
  for (const Dependency& d : dependencies)
    if (d.job && !tables.job(d.job))
      out.push_back({d.job, d.element});
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<PastEnds> past_ends(HistoryStore& store, const std::vector<Prerequisite>& jobs) {
  PastEnds out;
  for (const Prerequisite& awaited : jobs) {
    HistoryQuery query;
    query.steps = false;
    query.limit = 1;  // an array may have very many rows
    JobTarget target{awaited.job, {}};
    if (awaited.element)
      target.elements = IntervalSet(*awaited.element, *awaited.element);
    query.jobs = {target};
    if (TRY(store.query(query)).empty()) {
      out[awaited] = PastEnd::kUnknown;
      continue;
    }
    query.states = {"failed",    "cancelled",     "timeout",  "node_fail",
                    "preempted", "out_of_memory", "deadline", "boot_fail"};
    out[awaited] = TRY(store.query(query)).empty() ? PastEnd::kSucceeded : PastEnd::kFailed;
  }
  return out;
}

void settle_past(std::vector<Dependency>& dependencies, bool any, const PastEnds& ends) {
  bool one_met = false;
  std::vector<Dependency> left;
  for (Dependency d : dependencies) {
    const auto known = d.job ? ends.find({d.job, d.element}) : ends.end();
    if (known != ends.end() && known->second != PastEnd::kUnknown) {
      if (is_met(d, known->second)) {
        one_met = true;
        continue;
      }
      d.failed = true;
    }
    left.push_back(d);
  }
  if (any && one_met)
    left.clear();
  dependencies = std::move(left);
}

}  // namespace lockstep
