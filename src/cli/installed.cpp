#include "cli/installed.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "cli/cluster_dir.h"
#include "io/local/state_dir.h"

namespace lockstep {

bool is_installed(const std::string& dir) { return dir == kInstalledController; }

std::string cluster_of_this_machine() {
  const char* const named = getenv("LOCKSTEP_DIR");
  const bool has_installed = access((std::string(kInstalledController) + "/" + kMarkFile).c_str(), F_OK) == 0;
  return (!named || !*named) && has_installed ? std::string(kInstalledController) : cluster_dir("").root;
}

std::string installed_cluster_name() {
  constexpr std::string_view kKey = "CLUSTER_NAME=";
  constexpr std::size_t kMost = 64 << 10;
  const auto text = read_plain(std::string(kInstalledSettings) + "/lockstepd.conf", Links::kFollowed, kMost);
  std::string name;
  for (const auto& line : split(text ? *text : "", '\n'))
    if (const std::string clean(trim(line)); clean.starts_with(kKey))
      name = clean.substr(kKey.size());
  if (name.size() >= 2 && (name[0] == '"' || name[0] == '\'') && name.back() == name[0])
    name = name.substr(1, name.size() - 2);
  return name.empty() ? "lockstep" : name;
}

}  // namespace lockstep
