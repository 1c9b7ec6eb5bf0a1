#include "cli/installed_conf.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <optional>

#include "base/installed.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/folder.h"

namespace lockstep {

namespace {

// What a line gives the variable; nothing: it is another line, or a comment.
std::optional<std::string> value_of(std::string_view line, std::string_view name) {
  line = trim(line);
  if (!line.starts_with(name) || line.size() == name.size() || line[name.size()] != '=')
    return std::nullopt;
  std::string_view value = trim(line.substr(name.size() + 1));
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
    value = value.substr(1, value.size() - 2);
  return std::string(value);
}

}  // namespace

std::string setting_in(const std::string& text, std::string_view name) {
  std::string found;
  for (const auto& line : split(text, '\n'))
    if (auto value = value_of(line, name))
      found = std::move(*value);
  return found;
}

std::string with_setting(const std::string& text, std::string_view name, const std::string& value) {
  const std::string fresh = format("{}={}", name, value);
  auto lines = split(text, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (value_of(*line, name)) {
      *line = fresh;
      return join(lines, "\n");
    }
  return text + (text.empty() || text.ends_with('\n') ? "" : "\n") + fresh + "\n";
}

Result<std::string> read_installed_conf() {
  return read_plain(installed_paths().controller_settings, Links::kFollowed);
}

Result<void> write_installed_conf(const std::string& text) {
  // An administrator may keep it elsewhere, behind a link, and closed to others.
  char real[PATH_MAX];
  const std::string& named = installed_paths().controller_settings;
  const std::string path = ::realpath(named.c_str(), real) ? real : named;
  struct stat found {};
  const unsigned mode = ::stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0644;
  const auto slash = path.rfind('/');
  return TRY(Folder::open(path.substr(0, slash))).write_durably(path.substr(slash + 1), text, mode);
}

}  // namespace lockstep
