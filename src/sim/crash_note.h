// SimCrashNote: a CrashNote on a simulated machine. It outlives simulated controllers; trip() is what a signal handler
// does when the process stops itself. Where the controller is killed from outside, nobody trips it.
#pragma once

#include <functional>
#include <map>

#include "ports/crash_note.h"

namespace lockstep::sim {

class SimCrashNote : public CrashNote {
 public:
  void trip() { tripped_ = noted_.stage != CrashStage::kNone; }
  // A command is about to be applied; may trip the note and throw Crash. Unset = never.
  std::function<void(std::string_view name)> on_applying;

  Death last_death() override;
  void loading() override { noted_ = {CrashStage::kLoading, {}, 1}; }  // no simulated state stops anybody
  void loaded() override { noted_ = {}; }
  void begin() override;
  void applying(std::string_view name) override;
  void stage(CrashStage stage) override { noted_.stage = stage; }
  void done() override;
  std::vector<std::string> names(List list) override { return lists_[list]; }
  Result<void> keep(List list, const std::vector<std::string>& names) override;

 private:
  Death noted_;
  bool tripped_ = false;
  std::map<List, std::vector<std::string>> lists_;
};

}  // namespace lockstep::sim
