// /etc/lockstep/lockstepd.conf, the installed controller's settings: shell-style lines that systemd reads.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep {

// The last value that the text gives a variable, without quotes; "" = none.
std::string setting_in(const std::string& text, std::string_view name);
// The text with that value, in the line that had the last one, else in a line of its own at the end. All others stay.
std::string with_setting(const std::string& text, std::string_view name, const std::string& value);

Result<std::string> read_installed_conf();
Result<void> write_installed_conf(const std::string& text);

}  // namespace lockstep
