#include "container/registry_client.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/credentials.h"
#include "container/open_file.h"
#include "container/tool.h"

namespace lockstep {
namespace {

constexpr std::size_t kNetrcMax = 1 << 20;
constexpr int kCopyTries = 3;
constexpr std::int64_t kCopyStallMs = 60'000;

std::string netrc_of_user() {
  const char* config = ::getenv("ENROOT_CONFIG_PATH");
  const char* home = ::getenv("HOME");
  const std::string folder = config && *config ? config : format("{}/.config/enroot", home ? home : "");
  auto text = read_plain(folder + "/.credentials", Links::kFollowed, kNetrcMax);
  return text.ok() ? std::move(*text) : std::string();
}

// The machine's name in enroot's file is that of the server that gives out tokens.
std::vector<std::string> machines_of(const std::string& registry) {
  if (registry == "docker.io")
    return {"auth.docker.io", "registry-1.docker.io", "docker.io"};
  if (registry == "nvcr.io")
    return {"nvcr.io", "authn.nvidia.com"};
  return {registry, registry.substr(0, registry.find(':'))};
}

std::optional<Credentials> credentials_for(const ImageReference& image) {
  const std::string netrc = netrc_of_user();
  for (const std::string& machine : machines_of(image.registry))
    if (auto found = find_credentials(netrc, machine, image.user,
                                      [](const char* name) -> const char* { return ::getenv(name); }))
      return found;
  return std::nullopt;
}

// Programs that we start inherit it; it is on no disk, and goes with whoever is killed.
Result<OpenFile> in_memory(const std::string& text) {
  OpenFile file(::memfd_create("credentials", 0));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return os_error("credentials");
  return file;
}

}  // namespace

Result<RegistryClient> RegistryClient::make(const ImageReference& image) {
  RegistryClient client;
  client.transport_ = image.transport;
  client.by_digest_ = format("docker://{}/{}@", image.registry, image.repository);
  client.plain_ = is_loopback_registry(image.registry);
  if (!image.login.empty() || !image.password.empty()) {
    client.credentials_ = TRY(in_memory(docker_auth_file(image.registry, {image.login, image.password})));
  } else if (const auto credentials = credentials_for(image)) {
    client.credentials_ = TRY(in_memory(docker_auth_file(image.registry, *credentials)));
  } else if (!image.user.empty()) {
    return denied(format("no credentials of {} for {} in ~/.config/enroot/.credentials", image.user, image.registry));
  }
  return client;
}

std::string RegistryClient::name_of(const std::string& digest) const {
  return digest.empty() ? transport_ : by_digest_ + digest;
}

std::vector<std::string> RegistryClient::options(std::string_view prefix) const {
  std::vector<std::string> options;
  if (plain_)
    options.push_back(format("--{}tls-verify=false", prefix));
  if (credentials_.valid())
    options.push_back(format("--{}authfile=/proc/self/fd/{}", prefix, credentials_.get()));
  return options;
}

Result<std::string> RegistryClient::manifest(const std::string& digest) const {
  ToolRun ask{{"skopeo", "inspect", "--raw"}};
  for (std::string& option : options("")) ask.argv.push_back(std::move(option));
  ask.argv.push_back(name_of(digest));
  return run_tool(ask);
}

Result<std::string> RegistryClient::config(const std::string& digest) const {
  ToolRun ask{{"skopeo", "inspect", "--config", "--raw"}};
  for (std::string& option : options("")) ask.argv.push_back(std::move(option));
  ask.argv.push_back(name_of(digest));
  return run_tool(ask);
}

Result<void> RegistryClient::copy(const std::string& digest, const std::string& layout, Keep keep,
                                  const std::function<Result<void>()>& look) const {
  ToolRun copy{{"skopeo", "copy", "--quiet", "--retry-times=2"}};
  if (keep == Keep::kDigests)
    copy.argv.emplace_back("--preserve-digests");
  for (std::string& option : options("src-")) copy.argv.push_back(std::move(option));
  copy.argv.insert(copy.argv.end(), {name_of(digest), format("oci:{}:image", layout)});
  copy.stall_ms = kCopyStallMs;
  copy.look = look;
  for (int tries = 1;; ++tries) {
    const auto copied = run_tool(copy);
    if (copied.ok())
      return {};
    if (copied.error().code != Errc::kTimeout || tries == kCopyTries)
      return copied.error();
  }
}

}  // namespace lockstep
