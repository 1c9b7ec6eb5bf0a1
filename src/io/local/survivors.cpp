#include "io/local/survivors.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace lockstep {

namespace {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> out;
  DIR* dir = opendir("/proc");
  while (const dirent* entry = dir ? readdir(dir) : nullptr)
    if (const auto pid = parse_uint(entry->d_name))
      out.push_back(static_cast<pid_t>(*pid));
  if (dir)
    closedir(dir);
  return out;
}

std::vector<std::string> words_of(pid_t pid, const char* file) {
  const auto text = read_file(format("/proc/{}/{}", pid, file));
  return text ? split(*text, '\0') : std::vector<std::string>();
}

// Each of our long-lived processes has one of these among its arguments. Nothing below: another cluster may live there.
// A node's first process names its own folder, too, for which it does not run.
bool name_directory(const std::vector<std::string>& words, const std::string& directory) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == directory + "/controller.run" || words[i] == directory + "/hosts" ||
        (i > 0 && words[i - 1] == "--dir" && words[i] == directory))
      return true;
  return false;
}

bool works_for(pid_t pid, const std::string& directory) {
  struct stat owner {};
  if (stat(format("/proc/{}", pid).c_str(), &owner) != 0 || owner.st_uid != geteuid())
    return false;
  return name_directory(words_of(pid, "cmdline"), directory);
}

std::string told_id(pid_t pid) {
  const std::string variable = std::string(kClusterIdVariable) + "=";
  for (const auto& word : words_of(pid, "environ"))
    if (word.starts_with(variable))
      return word.substr(variable.size());
  return {};
}

}  // namespace

std::vector<OwnProcess> survivors(const std::string& cluster_id, std::string_view name) {
  std::vector<OwnProcess> out;
  for (const pid_t pid : all_processes()) {
    const auto process = command_name(pid) == name ? identify(pid) : std::nullopt;
    if (!process)
      continue;
    if (auto proven = OwnProcess::prove(*process, cluster_id))
      out.push_back(std::move(*proven));
  }
  return out;
}

std::string node_of(pid_t first_process) {
  const auto words = words_of(first_process, "cmdline");
  return words.size() > 2 && words[1] == "node-init" ? words[2] : "";
}

std::string id_of_those_in(const std::string& directory) {
  for (const pid_t pid : all_processes()) {
    const std::string name = command_name(pid);
    if (name != kSupervisorName && name != kControllerName && name != kNodeName)
      continue;
    const auto process = identify(pid);
    const std::string id = works_for(pid, directory) ? told_id(pid) : "";
    if (process && !id.empty() && OwnProcess::prove(*process, id))
      return id;
  }
  return {};
}

}  // namespace lockstep
