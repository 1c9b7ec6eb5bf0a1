#include "sim/crash_note.h"

#include <utility>

namespace lockstep::sim {

CrashNote::Death SimCrashNote::last_death() {
  if (!std::exchange(tripped_, false))
    return {};
  Death death = noted_;
  if (death.stage == CrashStage::kApplying)
    death.commands = {death.commands.back()};
  return death;
}

void SimCrashNote::begin() { noted_ = {CrashStage::kNone, {}, 0}; }

void SimCrashNote::applying(std::string_view name) {
  noted_.stage = CrashStage::kApplying;
  noted_.commands.emplace_back(name);
  if (on_applying)
    on_applying(name);
}

void SimCrashNote::done() { noted_ = {}; }

Result<void> SimCrashNote::keep(List list, const std::vector<std::string>& names) {
  lists_[list] = names;
  return {};
}

}  // namespace lockstep::sim
