#include "controller/past_runs.h"

#include <map>

namespace lockstep {

Result<std::vector<PastRun>> past_runs(HistoryStore& history, const Tables& tables, std::size_t most) {
  std::map<std::pair<std::uint32_t, std::string>, UserId> users;
  for (const auto& [id, user] : tables.users) users[{user->uid, user->meta.name}] = id;
  std::vector<PastRun> out;
  for (EndedRun& run : TRY(history.latest_runs(most))) {
    const auto user = users.find({run.uid, run.user});
    if (user == users.end())
      continue;
    Duration limit = run.limit_s < 0 ? kForever : seconds(run.limit_s);
    if (run.limit_s == 0) {
      const Partition* partition = tables.partition(run.partition);
      limit = !partition ? kForever : partition->time_default.us > 0 ? partition->time_default : partition->time_max;
    }
    out.push_back({.user = user->second,
                   .name = std::move(run.name),
                   .size = run.devices > 0 ? run.devices : run.cores,
                   .limit = limit,
                   .ran = run.ran});
  }
  return out;
}

}  // namespace lockstep
