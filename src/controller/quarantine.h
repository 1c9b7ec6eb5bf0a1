// Quarantine: commands that stopped the controller, in whatever stage, and are refused from then on.
//
// Who died while it was applied is known. Who died later was one of a batch: a batch of one is quarantined, the
// commands of a larger one become suspects, which are applied alone, one a batch, when they come again. So the one that
// kills is known at its next try at the latest, and nobody else is refused.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ports/crash_note.h"

namespace lockstep {

class Quarantine {
 public:
  // Judges the last death. Refuses to go on where reading back the state stopped the controller twice in a row.
  static Result<std::unique_ptr<Quarantine>> open(CrashNote& note);

  bool refuses(std::string_view name) const { return quarantined_.contains(name); }
  bool any_suspects() const { return !suspects_.empty(); }
  bool suspects(std::string_view name) const { return suspects_.contains(name); }
  // A batch came through all stages: of a suspect that was alone in it nothing is to be feared.
  void survived(std::string_view name);
  std::vector<std::string> quarantined() const { return {quarantined_.begin(), quarantined_.end()}; }

 private:
  explicit Quarantine(CrashNote& note) : note_(note) {}
  void judge(const CrashNote::Death& death);
  void keep(CrashNote::List list, const std::set<std::string, std::less<>>& names);

  CrashNote& note_;
  std::set<std::string, std::less<>> quarantined_, suspects_;
};

}  // namespace lockstep
