#include "controller/plan_refusals.h"

#include <cstdio>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr Duration kNameRefusalsEvery = seconds(5);
constexpr const char* kParts[] = {"start", "promise", "preemption", "resume", "growth", "packing"};

const char* text_of(PlanPart part) { return kParts[static_cast<std::size_t>(part)]; }

}  // namespace

void PlanRefusals::took(const std::vector<RefusedPart>& refused, Instant now) {
  const std::lock_guard lock(mutex_);
  for (const RefusedPart& one : refused) {
    ++counts_[{text_of(one.part), one.reason}];
    if (one.reason == kJobChanged)
      continue;  // cancelled, held or changed while it was planned
    if (told_ && now - told_ < kNameRefusalsEvery) {
      ++untold_;
      continue;
    }
    const std::string more = untold_ > 0 ? format(" (and {} more since the last such line)", untold_) : "";
    std::fprintf(stderr, "lockstepd: the %s of job %llu was refused: %s: %s%s\n", text_of(one.part),
                 static_cast<unsigned long long>(one.job.value), one.reason.c_str(), one.detail.c_str(), more.c_str());
    told_ = now;
    untold_ = 0;
  }
}

PlanRefusals::Counts PlanRefusals::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<PlanNote> notes_of(const std::vector<RefusedPart>& refused) {
  std::vector<PlanNote> notes;
  for (const RefusedPart& one : refused)
    if (one.part == PlanPart::kStart && one.reason != kJobChanged)
      notes.push_back({.job = one.job, .wait = one.wait, .detail = one.detail, .expected_start = {}});
  return notes;
}

std::string metrics_text(const PlanRefusals& refusals) {
  std::string out = "# TYPE lockstep_plans_refused_total counter\n";
  for (const auto& [what, count] : refusals.counts())
    out += format("lockstep_plans_refused_total{{plan=\"{}\",reason=\"{}\"}} {}\n", what.first, what.second, count);
  return out;
}

}  // namespace lockstep
