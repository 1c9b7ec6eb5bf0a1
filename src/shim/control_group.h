// The control group that a step's tasks are in, as far as their shim has to do with it. Its agent has made it and will
// remove it (io/local/cgroups.h). Sources: the kernel's admin-guide/cgroup-v1/freezer-subsystem.rst, memory.rst and
// cgroup-v2.rst.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

class ControlGroup {
 public:
  // oom_file: memory.oom_control or memory.events. freeze_file: freezer.state (version 1) or cgroup.freeze (version 2).
  // "" = there is none.
  ControlGroup(std::string oom_file, std::string freeze_file);

  // Processes that the kernel has killed since for want of memory.
  std::uint64_t oom_kills() const;

  // Nothing in the group runs while it is frozen, whatever anybody signals. False: it cannot be frozen. What was killed
  // ends under version 1 only when it is thawed.
  bool freeze();
  void thaw();
  bool asked_to_freeze() const { return frozen_; }
  bool is_frozen() const;  // every process stands
  // A process that waits in the kernel keeps the group from being frozen, and stands before it would run again. Under
  // version 1 one that stands looks like one that waits; under version 2 it looks as if it slept.
  bool shows_frozen() const { return frozen_ && is_v1(); }

 private:
  bool is_v1() const;

  std::string oom_file_, freeze_file_;
  std::uint64_t oom_kills_before_;
  bool frozen_ = false;
};

// The number behind a word at the beginning of a line: "oom_kill 3". 0: no such line.
std::uint64_t number_behind(std::string_view text, std::string_view word);

}  // namespace lockstep
