#include "core/turns.h"

#include <algorithm>
#include <string>

#include "rules/tres.h"

namespace lockstep {

namespace {

// A job without a limit is taken for one of a day, so that what is learned of its kind still counts.
constexpr Duration kNoLimitMeans = hours(24);
constexpr std::uint64_t kElementsMost = 10'000'000;  // of one array in the backlog

struct Size {
  bool devices = false;
  std::int64_t count = 1;
};

Size size_of(const JobSpec& spec) {
  const Tres tres = least_tres(spec);
  if (tres.gpus > 0)
    return {true, tres.gpus};
  return {false, std::max<std::int64_t>(1, tres.cpu)};
}

bool waits(const Job& job) {
  return job.state == JobState::kPending && job.hold == Hold::kNone && job.predicted.us > 0;
}

std::int64_t total_size(const Job& job, const Size& size) {
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
    const Size size = size_of(*before->spec);
    (size.devices ? by_devices_ : by_cores_).remove(total_size(*before, size), before->predicted);
  }
  if (is) {
    const Size size = size_of(*after->spec);
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

void Turns::place(Job& job, Duration limit) const {
  const Size size = size_of(*job.spec);
  const Duration most = known(limit);
  job.predicted = predictor_.predict(kinds_of(*job.spec, size.count, most), most);
  const std::int64_t all = capacity(size.devices);
  const Duration backlog = (size.devices ? by_devices_ : by_cores_).drain_time(all);
  job.turn = turn_of(policy_, {.submitted = job.submitted,
                               .size = size.count,
                               .capacity = all,
                               .predicted = job.predicted,
                               .spread = spread_of(policy_, backlog)})
                 .at;
  if (!job.turn)
    job.turn = Instant{1};
}

void Turns::learn(const JobSpec& ended, Duration limit, Duration ran) {
  const Size size = size_of(ended);
  const Duration most = known(limit);
  predictor_.observe(kinds_of(ended, size.count, most), most, std::min(ran, most));
}

}  // namespace lockstep
