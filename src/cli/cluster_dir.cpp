#include "cli/cluster_dir.h"

#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "io/local/folder.h"
#include "io/local/process.h"

namespace lockstep {

bool ClusterDir::exists() const { return access(file("cluster.conf").c_str(), F_OK) == 0; }

Result<ClusterConf> ClusterDir::load() const {
  const std::string text = TRY(read_file(file("cluster.conf")));
  ClusterConf conf;
  std::size_t number = 0;
  for (const auto& line : split(text, '\n')) {
    ++number;
    const auto clean = trim(line);
    if (clean.empty() || clean[0] == '#')
      continue;
    const auto equals = clean.find('=');
    const Error bad = invalid(format("{} line {}: not understood: {}", file("cluster.conf"), number, clean));
    if (equals == std::string_view::npos)
      return bad;
    const std::string_view key = clean.substr(0, equals), value = clean.substr(equals + 1);
    const auto amount = parse_uint(value);
    if (key == "name")
      conf.name = value;
    else if (key == "gpus")
      conf.gpus = value;
    else if (key == "bridge")
      conf.network.bridge = value;
    else if (!amount)
      return bad;
    else if (key == "nodes")
      conf.nodes = static_cast<std::uint32_t>(*amount);
    else if (key == "cpus")
      conf.cpus = static_cast<std::uint32_t>(*amount);
    else if (key == "memory_mb")
      conf.memory_mb = static_cast<std::int64_t>(*amount);
    else if (key == "port")
      conf.port = static_cast<std::uint16_t>(*amount);
    else if (key == "network")
      conf.network.second = static_cast<std::uint32_t>(*amount);
    else if (key == "move_after_s")
      conf.move_after_s = static_cast<std::uint32_t>(*amount);
    else
      return bad;
  }
  return conf;
}

Result<void> ClusterDir::save(const ClusterConf& conf) const {
  return TRY(Folder::open(root))
      .keep("cluster.conf",
            format("# Written by lockstep up.\nname={}\nnodes={}\ngpus={}\ncpus={}\nmemory_mb={}\nport={}\n"
                   "bridge={}\nnetwork={}\nmove_after_s={}\n",
                   conf.name, conf.nodes, conf.gpus, conf.cpus, conf.memory_mb, conf.port, conf.network.bridge,
                   conf.network.second, conf.move_after_s),
            0600);
}

ClusterDir cluster_dir(const std::string& option) {
  std::string path = option;
  if (path.empty())
    if (const char* env = getenv("LOCKSTEP_DIR"))
      path = env;
  if (path.empty()) {
    const char* home = getenv("HOME");
    if (!home || !*home) {
      const passwd* user = getpwuid(getuid());
      home = user ? user->pw_dir : "/root";
    }
    path = std::string(home) + "/.lockstep/default";
  }
  return {absolute_path(path), ""};
}

std::vector<std::string> node_names(const ClusterConf& conf) {
  std::vector<std::string> names;
  if (conf.nodes == 0) {
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    const std::string name(host);
    names.push_back(name.substr(0, name.find('.')));
  }
  for (std::uint32_t i = 1; i <= conf.nodes; ++i) names.push_back(format("n{}", i));
  return names;
}

Result<GpuSpec> parse_gpus(const std::string& text) {
  if (text.empty())
    return GpuSpec{};
  const auto cross = text.find('x');
  const auto count = parse_uint(text.substr(0, cross));
  if (!count || *count > 64 || (cross != std::string::npos && cross + 1 == text.size()))
    return invalid(format("--gpus {}: write COUNTxTYPE with at most 64, such as 8xh100", text));
  return GpuSpec{static_cast<std::uint32_t>(*count),
                 cross == std::string::npos ? "h100" : lower(text.substr(cross + 1))};
}

Result<std::int64_t> parse_memory_mb(const std::string& text) {
  std::string digits = text;
  std::int64_t factor_mb = 1;
  if (!digits.empty() && (digits.back() == 'B' || digits.back() == 'b'))
    digits.pop_back();
  if (!digits.empty())
    switch (digits.back()) {
      case 'M':
      case 'm': digits.pop_back(); break;
      case 'G':
      case 'g':
        digits.pop_back();
        factor_mb = 1024;
        break;
      case 'T':
      case 't':
        digits.pop_back();
        factor_mb = 1024 * 1024;
        break;
      default: break;
    }
  const auto amount = parse_uint(digits);
  if (!amount || *amount == 0 || *amount > 1'000'000'000)
    return invalid(format("--memory {}: write an amount such as 512G", text));
  return static_cast<std::int64_t>(*amount) * factor_mb;
}

std::string program_dir() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0)
    return ".";
  const std::string self(path, static_cast<std::size_t>(n));
  return self.substr(0, self.rfind('/'));
}

}  // namespace lockstep
