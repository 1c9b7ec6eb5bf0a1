#include "cli/units.h"

#include <unistd.h>

#include "base/installed.h"
#include "base/text.h"
#include "io/local/process.h"

namespace lockstep {

namespace {

Result<void> systemctl(const std::string& verb, const std::string& unit) {
  const Ran ran = TRY(run_and_hear({"systemctl", "--quiet", verb, unit}));
  if (ran.code == 0)
    return {};
  return Error{Errc::kUnavailable, format("systemctl {} {}: {}", verb, unit, trim(ran.err)), {}};
}

// Why a service is not there that was to be.
Error failed_unit(const std::string& unit, const Error& error) {
  const std::string said = last_words(unit);
  return {error.code,
          format("{} does not run: {}\n{}More: systemctl status {}; journalctl -u {}", unit, error.message,
                 said.empty() ? "" : "It said last:\n" + said, unit, unit),
          {}};
}

Result<void> begin(const std::string& verb, const std::string& unit) {
  const auto begun = systemctl(verb, unit);
  return begun ? begun : Result<void>(failed_unit(unit, begun.error()));
}

}  // namespace

bool has_systemd() { return access(installed_paths().systemd.c_str(), F_OK) == 0; }

Result<UnitState> unit_state(const std::string& unit) {
  const Ran ran = TRY(
      run_and_hear({"systemctl", "show", "-p", "LoadState,ActiveState,Result,MainPID,NRestarts,UnitFileState", unit}));
  if (ran.code != 0)
    return Error{Errc::kUnavailable, format("systemctl show {}: {}", unit, trim(ran.err)), {}};
  UnitState state;
  for (const auto& line : split(ran.out, '\n')) {
    const auto equals = line.find('=');
    if (equals == std::string::npos)
      continue;
    const std::string name = line.substr(0, equals), value = line.substr(equals + 1);
    if (name == "LoadState" && value == "not-found")
      return UnitState{};
    if (name == "ActiveState")
      state.active = value;
    else if (name == "Result")
      state.result = value;
    else if (name == "UnitFileState")
      state.enabled = value;
    else if (name == "NRestarts")
      state.restarts = static_cast<std::uint32_t>(parse_uint(value).value_or(0));
    else if (name == "MainPID")
      state.pid = static_cast<std::int32_t>(parse_uint(value).value_or(0));
  }
  return state;
}

Result<void> enable_and_start(const std::string& unit) {
  TRY(systemctl("enable", unit));
  return begin("start", unit);
}

Result<void> restart_unit(const std::string& unit) { return begin("restart", unit); }
Result<void> stop_unit(const std::string& unit) { return systemctl("stop", unit); }

Result<void> disable_and_stop(const std::string& unit) {
  TRY(systemctl("stop", unit));
  return systemctl("disable", unit);
}

namespace {

std::string last_words_by(const std::string& match) {
  const auto ran = run_and_hear({"journalctl", "--quiet", "--no-pager", "-o", "cat", "-n", "5", match});
  std::string words;
  if (ran && ran->code == 0)
    for (const auto& line : split(ran->out, '\n'))
      if (!line.empty())
        words += "  " + line + "\n";
  return words;
}

}  // namespace

// Its own words before systemd's about it, which say only that it ended.
std::string last_words(const std::string& unit) {
  const std::string own = last_words_by("_SYSTEMD_UNIT=" + unit);
  return own.empty() ? last_words_by("--unit=" + unit) : own;
}

std::string last_line(const std::string& unit) {
  const auto lines = split(last_words(unit), '\n');  // ends with a line end
  return lines.size() < 2 ? std::string() : std::string(trim(lines[lines.size() - 2]));
}

}  // namespace lockstep
