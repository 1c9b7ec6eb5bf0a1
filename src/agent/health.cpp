#include "agent/health.h"

#include <algorithm>

#include "base/characters.h"

namespace lockstep {
namespace {

constexpr std::size_t kEvidenceMax = 200;

}  // namespace

bool HealthBook::take(const std::vector<std::string>& checks, const std::vector<LookFinding>& findings, Instant now) {
  const std::string bad_before = bad(), suspect_before = suspect();
  for (const std::string& check : checks) {
    LookVerdict& verdict = verdicts_[check];
    LookFinding worst{.check = check, .level = HealthLevel::kHealthy, .evidence = {}};
    for (const LookFinding& finding : findings)
      if (finding.check == check && finding.level > worst.level)
        worst = finding;
    const bool is_bad = worst.level == HealthLevel::kBad;
    if (is_bad && !worst.at_once && !verdict.seen_bad)
      worst.level = HealthLevel::kSuspect;
    verdict.seen_bad = is_bad;
    if (worst.level != verdict.level || worst.exact) {
      verdict.evidence = without_control_characters(worst.evidence, kEvidenceMax);
      if (worst.level != verdict.level)
        verdict.since = now;
    }
    verdict.level = worst.level;
  }
  return bad() != bad_before || suspect() != suspect_before;
}

std::string HealthBook::at(HealthLevel level) const {
  std::string text;
  for (const auto& [check, verdict] : verdicts_)
    if (verdict.level == level)
      text += (text.empty() ? "" : "; ") + check + ": " + verdict.evidence;
  return text;
}

std::string HealthBook::bad() const { return at(HealthLevel::kBad); }
std::string HealthBook::suspect() const { return at(HealthLevel::kSuspect); }

}  // namespace lockstep
