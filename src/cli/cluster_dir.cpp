#include "cli/cluster_dir.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/installed.h"
#include "base/text.h"
#include "io/client/unix_api_client.h"
#include "io/local/folder.h"
#include "io/local/process.h"
#include "io/local/state_dir.h"

namespace lockstep {

namespace {

bool is_there(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string home_directory() {
  if (const char* home = getenv("HOME"); home && *home)
    return home;
  const passwd* user = getpwuid(getuid());
  return user ? user->pw_dir : "/root";
}

Result<ClusterConf> load_one(const std::string& path) {
  const auto text = read_file(path);
  if (!text)
    return Error{text.error().code, text.error().message, {}};
  auto conf = parse_conf(*text);
  if (!conf)
    return Error{Errc::kCorrupt, format("{} is damaged: {}", path, conf.error().message), {}};
  return conf;
}

}  // namespace

std::string ClusterDir::socket() const {
  return kind == Kind::kNode ? installed_paths().agent_socket : file("public/api.sock");
}

bool ClusterDir::exists() const { return is_installed() || is_there(file(kConfFile)) || is_there(file(kConfCopyFile)); }

bool ClusterDir::is_ours() const { return exists() || is_there(file("controller.run")) || is_there(file("nodes")); }

Result<ClusterConf> ClusterDir::load() const {
  auto conf = load_one(file(kConfFile));
  if (conf)
    return conf;
  auto copy = load_one(file(kConfCopyFile));
  if (copy) {
    copy->damage = conf.error().message;
    return copy;
  }
  return Error{
      Errc::kCorrupt,
      format("{}; and {}. Restore one of them from a backup, or remove both and run `lockstep up --dir {}` with "
             "the options the cluster was made with: jobs, history and certificates are kept",
             conf.error().message, copy.error().message, root),
      {}};
}

Result<void> ClusterDir::save(const ClusterConf& conf) const {
  const Folder folder = TRY(Folder::open(root));
  const std::string text = conf_text(conf);
  for (const char* name : {kConfCopyFile, kConfFile}) {
    unlinkat(folder.fd(), name, AT_REMOVEDIR);  // an empty directory in its place; anything else stays
    TRY(folder.keep(name, text, 0600));
  }
  return {};
}

Result<std::unique_ptr<ApiClient>> connect_and_tell(const std::string& socket) {
  const auto tell = [](std::string_view text) {
    fprintf(stderr, "lockstep: %.*s\n", static_cast<int>(text.size()), text.data());
  };
  auto client = TRY(connect_patiently({socket}, Patience{seconds(15), seconds(1), tell}));
  client->on_silence(seconds(3), [tell] { tell("waiting for the controller, which has not answered for 3 s"); });
  return client;
}

std::string no_cluster_text(const ClusterDir& dir) {
  if (access(dir.file(kConfFile).c_str(), F_OK) != 0 && errno == EACCES)
    return format("no permission to look into {}", dir.root);
  const std::string above = cluster_above(dir.root);
  return format("there is no cluster in {}{}", dir.root,
                above.empty() ? "" : ", which is part of the cluster in " + above);
}

ClusterDir cluster_dir(const std::string& option) {
  using enum ClusterDir::Kind;
  const InstalledPaths installed = installed_paths();
  std::string path = option;
  if (path.empty())
    if (const char* env = getenv("LOCKSTEP_DIR"))
      path = env;
  path = path.empty() ? "" : absolute_path(path);
  if (has_installed_controller() && (path.empty() || path == installed.controller_dir))
    return {installed.controller_dir, "", kController};
  if (is_installed_node() && (path.empty() || path == installed.node_dir))
    return {installed.node_dir, "", kNode};
  if (path.empty())
    path = absolute_path(home_directory() + "/.lockstep/default");
  return {path, ""};
}

std::vector<std::string> node_names(const ClusterConf& conf) {
  std::vector<std::string> names;
  if (!conf.has_bridge()) {
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    const std::string name(host);
    names.push_back(name.substr(0, name.find('.')));
  }
  for (std::uint32_t i = 1; i <= conf.nodes; ++i) names.push_back(format("n{}", i));
  CHECK(names.size() == (conf.has_bridge() ? conf.nodes : 1));
  return names;
}

ListenAt listener_of(const ClusterConf& conf) {
  const std::string inner = conf.has_bridge() ? conf.network.host_address() : "127.0.0.1";
  return {conf.listen.empty() ? inner : conf.listen, conf.port};
}

std::string controller_host(const ClusterConf& conf) {
  const std::string address = listener_of(conf).address;
  return conf.has_bridge() && is_wildcard(address) ? conf.network.host_address() : address_from_here(address);
}

Result<GpuSpec> parse_gpus(const std::string& text) {
  if (text.empty())
    return GpuSpec{};
  const auto cross = text.find('x');
  const auto count = parse_uint(text.substr(0, cross));
  if (!count || *count > 64)
    return invalid("--gpus: write COUNTxTYPE with at most 64, such as 8xh100");
  if (cross != std::string::npos)
    TRY(check_plain_word("--gpus: the type", text.substr(cross + 1)));
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
