// The namespaces of a task's sandbox, made by its shim for itself and so for all it starts: network (with an address of
// its own, by the distribution's CNI plug-ins), IPC and host name. The shim holds them: they last for as long as it
// does, whatever containers come and go, and the kernel takes them with it. What is written beside them, the address
// that is taken, is let go by release(), or by the agent when the shim was killed (release_address_of).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/sandbox.h"

namespace lockstep {

inline constexpr const char* kCniFolder = "/usr/lib/cni";        // of Debian's containernetworking-plugins
inline constexpr std::string_view kAddressFolder = "addresses";  // beside the shims' folders: one file an address

class SandboxNetwork {
 public:
  // work: the sandbox's name, as text_of(WorkId). folder: where addresses that are taken are kept. Called by root, by a
  // process without threads, which has the namespaces from then on.
  static Result<SandboxNetwork> make(const SandboxPlace& place, const std::string& work, const std::string& folder);
  SandboxNetwork(SandboxNetwork&& other) noexcept;
  SandboxNetwork& operator=(SandboxNetwork&& other) noexcept;
  ~SandboxNetwork();

  const std::string& address() const { return address_; }
  void release();  // a second time does nothing

 private:
  SandboxNetwork() = default;
  int host_ = -1;  // the node's network namespace
  std::string config_, work_, address_;
};

// IPC alone, for containers that share the node's network. Without root they share the node's, too.
void leave_ipc_of_node();

// "" in `configuration` where a plug-in is missing; says which.
Result<void> check_plugins(const std::string& folder = kCniFolder);
std::string plugin_configuration(const SandboxPlace& place, const std::string& folder);
// The address in what a plug-in answers: "10.77.128.2" of {"ips":[{"address":"10.77.128.2/25"}]}.
Result<std::string> address_in(std::string_view answer);

// What is kept of addresses whose sandbox is gone: those of `work`, or of all that are not among `lives`.
void release_address_of(const std::string& folder, const std::string& work);
void release_addresses_but(const std::string& folder, const std::vector<std::string>& lives);

}  // namespace lockstep
