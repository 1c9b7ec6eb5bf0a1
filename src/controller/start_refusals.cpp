#include "controller/start_refusals.h"

#include <cstdio>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr Duration kNameRefusalsEvery = seconds(5);

}  // namespace

void StartRefusals::took(const std::vector<RefusedStart>& refused, Instant now) {
  const std::lock_guard lock(mutex_);
  for (const RefusedStart& one : refused) {
    ++counts_[one.reason];
    if (one.reason == kJobChanged)
      continue;  // cancelled, held or changed while it was planned
    if (told_ && now - told_ < kNameRefusalsEvery) {
      ++untold_;
      continue;
    }
    const std::string more = untold_ > 0 ? format(" (and {} more since the last such line)", untold_) : "";
    std::fprintf(stderr, "lockstepd: the start of job %llu was refused: %s: %s%s\n",
                 static_cast<unsigned long long>(one.job.value), one.reason.c_str(), one.detail.c_str(), more.c_str());
    told_ = now;
    untold_ = 0;
  }
}

std::map<std::string, std::uint64_t> StartRefusals::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<PlanNote> notes_of(const std::vector<RefusedStart>& refused) {
  std::vector<PlanNote> notes;
  for (const RefusedStart& one : refused)
    if (one.reason != kJobChanged)
      notes.push_back({.job = one.job, .wait = one.wait, .detail = one.detail, .expected_start = {}});
  return notes;
}

std::string metrics_text(const StartRefusals& refusals) {
  std::string out = "# TYPE lockstep_starts_refused_total counter\n";
  for (const auto& [reason, count] : refusals.counts())
    out += format("lockstep_starts_refused_total{{reason=\"{}\"}} {}\n", reason, count);
  return out;
}

}  // namespace lockstep
