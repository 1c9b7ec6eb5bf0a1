#include "core/turns.h"

#include <algorithm>
#include <string>

#include "core/cluster.h"
#include "model/job.h"
#include "model/spec.h"
#include "rules/job_size.h"

namespace lockstep {

namespace {

// A job without a limit is taken for one of a day, so that what is learned of its kind still counts.
constexpr Duration kNoLimitMeans = hours(24);
constexpr std::size_t kKinMost = 32;  // waiting jobs of a kin that are predicted again
constexpr std::size_t kKinsMost = 4096;
constexpr std::int64_t kAlike = 8;                   // predictions that differ by less than this part are
constexpr std::uint64_t kElementsMost = 10'000'000;  // of one array in the backlog

bool waits(const Job& job) {
  return job.state == JobState::kPending && job.hold == Hold::kNone && job.predicted.us > 0;
}

std::int64_t total_size(const Job& job, const JobSize& size) {
  const std::uint64_t jobs = job.array ? std::min<std::uint64_t>(job.array->waiting.size(), kElementsMost) : 1;
  return size.count * static_cast<std::int64_t>(jobs);
}

RunKinds kinds_of(const JobSpec& spec, std::int64_t size, Duration limit) {
  const std::string user = std::to_string(spec.user.value);
  return run_kinds({.user = user, .name = spec.name, .size = size, .limit = limit});
}

Duration known(Duration limit) { return limit >= kForever ? kNoLimitMeans : std::max(limit, seconds(1)); }

}  // namespace

void Turns::index(const Job* before, const Job* after) {
  const bool was = before && waits(*before), is = after && waits(*after);
  if (!was && !is)
    return;
  const bool same = was && is && before->spec == after->spec && before->predicted == after->predicted &&
                    before->array == after->array;
  if (same)
    return;
  if (was) {
    const JobSize size = size_of(*before->spec);
    (size.devices ? by_devices_ : by_cores_).remove(total_size(*before, size), before->predicted);
  }
  if (is) {
    const JobSize size = size_of(*after->spec);
    (size.devices ? by_devices_ : by_cores_).add(total_size(*after, size), after->predicted);
  }
}

void Turns::index(const Node* before, const Node* after) {
  const auto count = [&](const Node* node, std::int64_t by) {
    if (!node)
      return;
    cores_ += by * node->cores;
    for (const Device& device : node->devices) devices_ += by * (device.kind == "gpu");
  };
  count(before, -1);
  count(after, 1);
}

void Turns::clear() {
  by_devices_ = by_cores_ = {};
  devices_ = cores_ = 0;
}

std::int64_t Turns::capacity(bool devices) const { return std::max<std::int64_t>(1, devices ? devices_ : cores_); }

void Turns::set_turn(Job& job, Duration spread) const {
  const JobSize size = size_of(*job.spec);
  job.turn = turn_of(policy_, {.submitted = job.submitted,
                               .size = size.count,
                               .capacity = capacity(size.devices),
                               .predicted = job.predicted,
                               .spread = spread})
                 .at;
  if (!job.turn)
    job.turn = Instant{1};
}

void Turns::place(Job& job, Duration limit) {
  const JobSize size = size_of(*job.spec);
  const Duration most = known(limit);
  const RunKinds kinds = kinds_of(*job.spec, size.count, most);
  job.predicted = predictor_.predict(kinds, most);
  const Duration backlog = (size.devices ? by_devices_ : by_cores_).drain_time(capacity(size.devices));
  const Duration spread = spread_of(policy_, backlog);
  set_turn(job, spread);
  if (kin_.size() >= kKinsMost)
    kin_.clear();
  std::vector<Kin>& kin = kin_[run_kin(kinds)];
  if (kin.size() < kKinMost)
    kin.push_back({job.id, spread});
}

std::vector<JobId> Turns::learn(const JobSpec& ended, Duration limit, Duration ran,
                                const std::function<bool(JobId)>& still_waits) {
  const JobSize size = size_of(ended);
  const Duration most = known(limit);
  const RunKinds kinds = kinds_of(ended, size.count, most);
  predictor_.observe(kinds, most, std::min(ran, most));
  std::vector<JobId> out;
  const auto kin = kin_.find(run_kin(kinds));
  if (kin == kin_.end())
    return out;
  std::erase_if(kin->second, [&](const Kin& k) { return !still_waits(k.job); });
  for (const Kin& k : kin->second) out.push_back(k.job);
  if (out.empty())
    kin_.erase(kin);
  return out;
}

void Turns::teach(const PastRun& run) {
  const Duration most = known(run.limit);
  const std::string user = std::to_string(run.user.value);
  predictor_.observe(
      run_kinds({.user = user, .name = run.name, .size = std::max<std::int64_t>(1, run.size), .limit = most}), most,
      std::clamp(run.ran, Duration{}, most));
}

bool Turns::place_again(Job& job, Duration limit) const {
  const JobSize size = size_of(*job.spec);
  const Duration most = known(limit);
  const RunKinds kinds = kinds_of(*job.spec, size.count, most);
  const auto kin = kin_.find(run_kin(kinds));
  if (kin == kin_.end())
    return false;
  const auto at = std::find_if(kin->second.begin(), kin->second.end(), [&](const Kin& k) { return k.job == job.id; });
  const Duration predicted = predictor_.predict(kinds, most);
  const Duration apart{predicted > job.predicted ? predicted.us - job.predicted.us : job.predicted.us - predicted.us};
  if (at == kin->second.end() || apart <= job.predicted / kAlike)
    return false;
  job.predicted = predicted;
  set_turn(job, at->spread);
  return true;
}

}  // namespace lockstep
