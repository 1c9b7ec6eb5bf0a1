#include "io/local/cgroup_host.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::string_view kControllers[] = {"memory", "cpuset", "pids", "cpuacct", "cpu", "devices", "freezer"};

struct Mount {
  std::string root, at;  // which group is shown where
  bool is_v2 = false;
  std::vector<std::string> options;  // v1: among them its controllers
};

// Spaces and the like stand as \040 in mountinfo.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "36 35 98:0 /root /where rw,noatime master:1 - cgroup cgroup rw,memory"
std::vector<Mount> cgroup_mounts(std::string_view mountinfo) {
  std::vector<Mount> out;
  for (const std::string& line : split(mountinfo, '\n')) {
    const auto words = split_words(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4 || (dash[1] != "cgroup" && dash[1] != "cgroup2"))
      continue;
    out.push_back({unescaped(words[3]), unescaped(words[4]), dash[1] == "cgroup2", split(dash[3], ',')});
  }
  return out;
}

// The group's directory under the mount; nullopt: it lies outside of what is mounted.
std::optional<std::string> dir_under(const Mount& mount, std::string_view path) {
  const std::string_view root = mount.root == "/" ? std::string_view() : std::string_view(mount.root);
  if (!path.starts_with(root) || (path.size() > root.size() && path[root.size()] != '/'))
    return std::nullopt;
  path.remove_prefix(root.size());
  return mount.at + std::string(path == "/" ? std::string_view() : path);
}

struct OwnGroups {
  std::string v2;                                    // "0::/system.slice/x.service"
  std::map<std::string, std::string> by_controller;  // "4:memory:/x"
};

OwnGroups own_groups(std::string_view cgroup) {
  OwnGroups out;
  for (const std::string& line : split(cgroup, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const std::string names = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (names.empty())
      out.v2 = path;
    for (const std::string& name : split(names, ',')) out.by_controller[name] = path;
  }
  return out;
}

std::optional<CgroupHost> as_v2(const std::vector<Mount>& mounts, const OwnGroups& own,
                                const std::function<std::string(const std::string&)>& controllers_in) {
  for (const Mount& mount : mounts) {
    const auto dir = mount.is_v2 && !own.v2.empty() ? dir_under(mount, own.v2) : std::nullopt;
    if (!dir)
      continue;
    CgroupHost host{CgroupVersion::kV2, {}, mount.at};
    for (const std::string& name : split_words(controllers_in(*dir))) host.own[name] = *dir;
    if (!host.has("memory") || !host.has("pids"))
      continue;
    for (const char* core : {"freezer", "cpuacct", "devices"}) host.own[core] = *dir;  // every group has them
    return host;
  }
  return std::nullopt;
}

std::optional<CgroupHost> as_v1(const std::vector<Mount>& mounts, const OwnGroups& own) {
  CgroupHost host{CgroupVersion::kV1, {}, {}};
  for (const Mount& mount : mounts)
    for (const std::string_view controller : kControllers) {
      const auto path = own.by_controller.find(std::string(controller));
      const bool is_its =
          !mount.is_v2 && std::find(mount.options.begin(), mount.options.end(), controller) != mount.options.end();
      if (!is_its || path == own.by_controller.end())
        continue;
      if (auto dir = dir_under(mount, path->second))
        host.own.emplace(controller, std::move(*dir));
    }
  return host.has("memory") ? std::optional(std::move(host)) : std::nullopt;
}

}  // namespace

Result<CgroupHost> read_cgroup_host(std::string_view mountinfo, std::string_view cgroup,
                                    const std::function<std::string(const std::string& dir)>& controllers_in) {
  const std::vector<Mount> mounts = cgroup_mounts(mountinfo);
  const OwnGroups own = own_groups(cgroup);
  if (auto host = as_v2(mounts, own, controllers_in))
    return std::move(*host);
  if (auto host = as_v1(mounts, own))
    return std::move(*host);
  return not_found(mounts.empty() ? "no control groups are mounted (/sys/fs/cgroup)"
                                  : "the control groups that are mounted do not limit memory here: version 2 lacks the "
                                    "memory and pids controllers in our group, and version 1's memory is not there");
}

Result<CgroupHost> this_cgroup_host() {
  const std::string mountinfo = TRY(read_plain("/proc/self/mountinfo"));
  const std::string cgroup = TRY(read_plain("/proc/self/cgroup"));
  return read_cgroup_host(mountinfo, cgroup, [](const std::string& dir) {
    auto text = read_plain(dir + "/cgroup.controllers");
    return text ? *text : std::string();
  });
}

}  // namespace lockstep
