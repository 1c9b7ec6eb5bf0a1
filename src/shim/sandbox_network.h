// The namespaces of a task's sandbox, made by its shim for itself and so for all it starts: network (with an address of
// its own, by the distribution's CNI plug-ins), IPC and host name. The shim holds them: they last for as long as it
// does, whatever containers come and go, and the kernel takes them with it, however it ends. The address itself stays
// taken until the controller knows of the end: then the agent lets it go (release_address_of), and another task may
// have it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/sandbox.h"

namespace lockstep {

inline constexpr const char* kCniFolder = "/usr/lib/cni";        // of Debian's containernetworking-plugins
inline constexpr std::string_view kAddressFolder = "addresses";  // beside the shims' folders: one file an address

// Returns the address. work: the sandbox's name, as text_of(WorkId). folder: where addresses that are taken are kept.
// Called by root, by a process without threads, which has the namespaces from then on.
// host: our network namespace until then, for publish_ports; the caller's to close.
struct SandboxNetwork {
  std::string address;
  std::string answer;  // of the plug-in, for those that follow it
  int host = -1;
  std::vector<int> held;  // ports of the node that lead to the sandbox's; the caller's to close
};
enum class IpcSpace : unsigned char { kOwn, kNodes };
// After an error the process is back in the node's network, and the sandbox has no address.
Result<SandboxNetwork> enter_sandbox_network(const SandboxPlace& place, const std::string& work,
                                             const std::string& folder, IpcSpace ipc = IpcSpace::kOwn);

// The way back, for a sandbox of which nobody was told.
void leave_sandbox_network(SandboxNetwork& network, const std::string& work, const std::string& folder);

// Ports of the node lead to the sandbox's (CNI's portmap, by the node's packet filter) until they are withdrawn. What
// was left by sandboxes that were killed is withdrawn first. Refused where something listens at such a port, or at an
// address by which the node leads to services.
Result<void> publish_ports(SandboxNetwork& network, const std::vector<PublishedPort>& ports, const std::string& work,
                           const std::string& folder);
void withdraw_ports(int host, const std::string& work, const std::string& folder);
std::string portmap_configuration(const std::vector<PublishedPort>& ports, const std::string& answer);

// IPC alone, for containers that share the node's network. Without root they share the node's, too.
void leave_ipc_of_node();

// Says which plug-in is missing.
Result<void> check_plugins(const std::string& folder = kCniFolder);
std::string plugin_configuration(const SandboxPlace& place, const std::string& folder);
// The address in what a plug-in answers: "10.77.128.2" of {"ips":[{"address":"10.77.128.2/25"}]}.
Result<std::string> address_in(std::string_view answer);

// What is kept of addresses whose sandbox is gone: those of `work`, or of all that are not among `lives`.
void release_address_of(const std::string& folder, const std::string& work);
void release_addresses_but(const std::string& folder, const std::vector<std::string>& lives);

}  // namespace lockstep
