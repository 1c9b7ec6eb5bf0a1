// Sandbox: what the containers of one task share. It has the task's life: a container that ends is started again inside
// it by its own rule, and the task goes on; the task's next incarnation is a new sandbox.
//
// init containers run one after the other, each to its end; then sidecars start in their order, and the main ones
// together. The task ends with the last main container, and its sidecars are ended then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
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

// kAdded: put beside the others while they run, by the front end's files (wire/front_end_files.h); it runs once, and
// nothing waits for it.
enum class ContainerKind : unsigned char { kMain, kInit, kSidecar, kAdded };

// Who the processes of a container are and what they may do beyond a plain program. Only a sandbox of root's may ask
// for more than its job's user has.
struct ContainerRights {
  std::optional<std::uint32_t> uid, gid;  // none: of a sandbox of root's what the image says, else the job's user
  std::vector<std::uint32_t> groups;      // further ones
  std::vector<std::string> add_capabilities, drop_capabilities;  // "NET_ADMIN"; "ALL"
  bool privileged = false;                                       // every capability, and every device of the node
  bool no_new_privileges = false;                                // setuid programs give none
  bool read_only_root = false;
  bool never_root = false;         // it does not start where its user is root, or no number that says so
  bool only_given_groups = false;  // without those that the image has for its user
  std::string seccomp;  // "" = the node's usual filter, "unconfined", or a file under the node's folder of filters
  friend bool operator==(const ContainerRights&, const ContainerRights&) = default;
};

// What is done once when a container has begun, or before it is ended.
struct ContainerHook {
  enum class How : unsigned char { kNone, kExec, kHttp, kSleep } how = How::kNone;
  std::vector<std::string> argv;                             // kExec, in the container
  std::string host, path;                                    // kHttp; host "" = the sandbox's address
  std::uint16_t port = 0;                                    // kHttp
  bool tls = false;                                          // kHttp: the certificate is not looked at
  std::vector<std::pair<std::string, std::string>> headers;  // kHttp
  Duration sleep;                                            // kSleep
  friend bool operator==(const ContainerHook&, const ContainerHook&) = default;
};

// A variable whose value is known only where the task runs.
struct PlacedVariable {
  enum class What : unsigned char { kTaskAddress, kNodeAddress, kNodeName } what = What::kTaskAddress;
  std::string name;
  friend bool operator==(const PlacedVariable&, const PlacedVariable&) = default;
};

struct SandboxContainer : Program {
  using Bases = std::tuple<Program>;  // for the list of fields
  std::string name;                   // a DNS label, unique in its sandbox
  ContainerKind kind = ContainerKind::kMain;
  RestartRule restart = RestartRule::kNever;  // of an init container: kNever, or it is tried until it succeeds
  std::uint32_t restarts_max = 0;             // 0 = no bound
  std::vector<Probe> probes;
  std::string std_out, std_err;  // file patterns as the job's; "" = the task's output
  ContainerRights rights;
  ContainerHook begun, ending;     // the second within the job's kill wait
  std::uint32_t milli_cores = 0;   // at most so much of a core's time; 0 = what the task has
  std::uint32_t cpu_weight = 0;    // thousandths of a core it is weighed by beside the others; 0 = as them
  std::uint64_t memory_bytes = 0;  // at most; 0 = what the task has
  std::string message_file;        // inside: its first 4 KiB are the end's message
  bool message_from_log = false;   // where the file is empty and it failed: the last lines it printed
  bool keeps_input = false;        // its standard input stays open for who attaches
  bool input_ends_once = false;    // and is closed when the first of them has gone
  bool terminal = false;
  enum class Fetch : unsigned char { kMissing, kAlways, kNever } fetch = Fetch::kMissing;  // the image
  std::vector<PlacedVariable> placed_env;
  std::uint64_t disk_bytes = 0;   // its log and what it writes outside of volumes, at most; 0 = no bound
  bool anew_for_cores = false;    // it is started again when its share of cores changes
  bool anew_for_memory = false;   // likewise
  std::string sees_processes_of;  // kAdded: of that container; "" = its own
  friend bool operator==(const SandboxContainer&, const SandboxContainer&) = default;
};

// A folder or file that containers mount as "volume:NAME" or "volume:NAME/PATH INSIDE".
struct SandboxVolume {
  enum class Kind : unsigned char {
    kDisk,    // empty when the sandbox begins, and gone with it
    kMemory,  // the same in memory, counted as the task's
    kFiles,   // what the front end gives (SandboxFiles), kept up to date
    kHost,    // of the node; for sandboxes of root's only
    kNfs,     // of another machine: path is "SERVER:/EXPORT"; for sandboxes of root's only
    kImage,   // what an image holds, read-only: path is its name; for sandboxes of root's only
  } kind = Kind::kDisk;
  std::string name;
  std::uint64_t bytes_max = 0;  // kDisk, kMemory: 0 = no bound of its own
  std::string path;             // kHost, kNfs, kImage; kMemory: size of its pages ("2M"), "" = as usual
  // kHost: "" = whatever is there; "Directory", "File", "Socket", "CharDevice", "BlockDevice" must be;
  // "DirectoryOrCreate", "FileOrCreate" are made.
  std::string path_type;
  friend bool operator==(const SandboxVolume&, const SandboxVolume&) = default;
};

struct HostAlias {
  std::string address;
  std::vector<std::string> names;
  friend bool operator==(const HostAlias&, const HostAlias&) = default;
};

// How names are looked up inside; all empty: as on the node.
struct NameLookup {
  std::vector<std::string> servers, searches, options;
  friend bool operator==(const NameLookup&, const NameLookup&) = default;
};

// A port of the node that leads to the sandbox.
struct PublishedPort {
  std::uint16_t node_port = 0, port = 0;
  std::string protocol = "tcp";  // or "udp", "sctp"
  std::string node_address;      // "" = all of the node's
  friend bool operator==(const PublishedPort&, const PublishedPort&) = default;
};

struct Sandbox {
  TaskNetwork network = TaskNetwork::kHost;
  std::vector<SandboxContainer> containers;  // none: the group's own program is all there is
  std::vector<SandboxVolume> volumes;
  // The front end that made the job is asked for files and variables before a container starts: SandboxFiles.
  bool front_end_files = false;
  std::string host_name, domain;   // "" = the job's, the group's and the task's; none
  bool named_as_job = false;       // where host_name is "": the job's alone
  std::vector<HostAlias> aliases;  // lines of /etc/hosts
  NameLookup lookup;
  std::vector<PublishedPort> published;
  std::vector<std::pair<std::string, std::string>> sysctls;  // of its own network and IPC
  std::optional<std::uint32_t> files_group;                  // volumes belong to this group, and its processes have it
  bool files_group_where_other = false;                      // only volumes whose root is another group's are changed
  std::uint64_t disk_bytes = 0;   // logs, layers and volumes on disk of all together, at most; 0 = no bound
  bool shared_processes = false;  // containers see each other's
  bool node_processes = false, node_ipc = false;
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
  bool ready = false;                // runs, and its startup and readiness probes say so
  std::uint32_t restarts = 0;        // lives before this one
  Instant started, ended;            // of this life; while it waits, of the one before
  ExitStatus exit;                   // of the last life that ended
  std::string reason;                // why it waits or ended: "CrashLoopBackOff"; "" = nothing to say
  std::string message;               // the same in a sentence, or what it left in its file of messages
  bool begun = false;                // runs, and its startup probe has passed and its first hook is done
  Instant last_started, last_ended;  // of the life that ended before this one
  std::string last_reason, last_message;
  std::string image_digest;  // of the image that it runs: "sha256:…"
  // Of this life: what its control group has, as in SandboxContainer, and who its first process is.
  std::uint32_t milli_cores = 0, cpu_weight = 0;
  std::uint64_t memory_bytes = 0;
  std::optional<std::uint32_t> uid, gid;
  std::vector<std::uint32_t> groups;
  friend bool operator==(const ContainerStatus&, const ContainerStatus&) = default;
};

// Where a sandbox is made.
struct SandboxPlace {
  std::string host_name;  // its UTS name
  std::string range;      // the node's, of which it gets an address: "10.77.128.0/25"; "" = it has none
  friend bool operator==(const SandboxPlace&, const SandboxPlace&) = default;
};

}  // namespace lockstep
