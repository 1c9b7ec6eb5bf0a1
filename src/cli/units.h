// Services of this machine under systemd: what `lockstep up`, `down`, `node join` and `leave` do with those of an
// installed cluster.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep {

bool has_systemd();  // it runs: not in most containers, nor in a chroot

struct UnitState {
  std::string active, result, enabled;  // "active", "success", "enabled"; "" = there is no such unit
  std::int32_t pid = 0;
  std::uint32_t restarts = 0;  // by systemd, since it was started
};
Result<UnitState> unit_state(const std::string& unit);
// Now and at every start of the machine. Waits until it says that it is ready; else the error has what it said last.
Result<void> enable_and_start(const std::string& unit);
Result<void> restart_unit(const std::string& unit);
Result<void> stop_unit(const std::string& unit);
// Neither now nor at the next start of the machine.
Result<void> disable_and_stop(const std::string& unit);
// The last lines of its journal, one a line, indented; "" = none can be read.
std::string last_words(const std::string& unit);
std::string last_line(const std::string& unit);  // of them; "" = none

}  // namespace lockstep
