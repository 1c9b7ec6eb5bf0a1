// Sandbox: what the containers of one task share. It has the task's life: a container that ends is started again inside
// it by its own rule, and the task goes on; the task's next incarnation is a new sandbox.
//
// init containers run one after the other, each to its end; then sidecars start in their order, and the main ones
// together. The task ends with the last main container, and its sidecars are ended then.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "model/exit_status.h"
#include "model/program.h"
#include "model/service.h"

namespace lockstep {

enum class TaskNetwork : unsigned char {
  kHost,  // the node's: its addresses and ports
  kOwn,   // an address of its own, from the node's range
};

enum class ContainerKind : unsigned char { kMain, kInit, kSidecar };

struct SandboxContainer : Program {
  using Bases = std::tuple<Program>;  // for the list of fields
  std::string name;                   // a DNS label, unique in its sandbox
  ContainerKind kind = ContainerKind::kMain;
  RestartRule restart = RestartRule::kNever;  // of an init container: kNever, or it is tried until it succeeds
  std::uint32_t restarts_max = 0;             // 0 = no bound
  std::vector<Probe> probes;
  std::string std_out, std_err;  // file patterns as the job's; "" = the task's output
  friend bool operator==(const SandboxContainer&, const SandboxContainer&) = default;
};

struct Sandbox {
  TaskNetwork network = TaskNetwork::kHost;
  std::vector<SandboxContainer> containers;  // none: the group's own program is all there is
  // Names of folders that are empty when the sandbox begins and go with it. Containers mount them as "volume:NAME".
  std::vector<std::string> volumes;
  friend bool operator==(const Sandbox&, const Sandbox&) = default;
};

inline constexpr const char* kOnlyContainer = "main";  // name of the one that the group's own program is
inline constexpr std::string_view kVolumePrefix = "volume:";

inline bool is_sandbox(const Sandbox& sandbox) {
  return sandbox.network != TaskNetwork::kHost || !sandbox.containers.empty();
}

// WAITING ──▶ RUNNING ──▶ ENDED ──restart rule──▶ WAITING (restarts + 1)
enum class ContainerState : unsigned char { kWaiting, kRunning, kEnded };

// How far one container has come, by the word of its node. Times are the cluster's: filled in when the word came.
struct ContainerStatus {
  std::string name;
  ContainerState state = ContainerState::kWaiting;
  bool ready = false;          // runs, and its startup and readiness probes say so
  std::uint32_t restarts = 0;  // lives before this one
  Instant started, ended;      // of this life; while it waits, of the one before
  ExitStatus exit;             // of the last life that ended
  std::string reason;          // why it waits or ended: "CrashLoopBackOff"; "" = nothing to say
  friend bool operator==(const ContainerStatus&, const ContainerStatus&) = default;
};

// Where a sandbox is made.
struct SandboxPlace {
  std::string host_name;  // its UTS name
  std::string range;      // the node's, of which it gets an address: "10.77.128.0/25"; "" = it has none
  friend bool operator==(const SandboxPlace&, const SandboxPlace&) = default;
};

}  // namespace lockstep
