// HealthBook: what the checks of a node have found, and what follows: a bad finding closes the node while it lasts, a
// suspect one is only told.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/time.h"

namespace lockstep {

enum class HealthLevel : unsigned char { kHealthy, kSuspect, kBad };

// What one look of one check came to.
struct LookFinding {
  std::string check;  // "disk", "mount", "gpu", "program"
  HealthLevel level = HealthLevel::kHealthy;
  std::string evidence;  // "/var is 99 % full"; "" where all is well
  bool at_once = true;   // false: one bad look is suspect, the second in a row is bad
  bool exact = false;    // the words change only when what they tell of does: each change is told
};

struct LookVerdict {
  HealthLevel level = HealthLevel::kHealthy;
  std::string evidence;  // as it was when it came to this level
  Instant since;         // boot clock
  bool seen_bad = false;
};

class HealthBook {
 public:
  // Findings of one look; `checks`: all that it made. What it has not named is healthy. True: bad() or suspect() say
  // something else now. While a check stays at its level its words stay, because each change is told to the
  // controller; unless they are exact.
  bool take(const std::vector<std::string>& checks, const std::vector<LookFinding>& findings, Instant now);

  std::string bad() const;  // evidence of all that is bad: "disk: /var is 99 % full; gpu: …"; "" = the node is fit
  std::string suspect() const;  // likewise
  const std::map<std::string, LookVerdict>& verdicts() const { return verdicts_; }

 private:
  std::string at(HealthLevel level) const;
  std::map<std::string, LookVerdict> verdicts_;
};

}  // namespace lockstep
