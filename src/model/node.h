// Node: a machine of the cluster, what it has and what is known of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/health.h"
#include "model/ids.h"
#include "model/labels.h"
#include "model/meta.h"
#include "model/resources.h"

namespace lockstep {

enum class NodeLink : unsigned char { kUnknown, kUp, kLost, kAway };

// A job that the node, though it is heard, does not confirm to have stopped or to pause as it was told to.
struct Unconfirmed {
  JobId job;
  std::uint32_t pauses = 0;  // Job::pauses of the order to pause; 0: it was told to stop
  Instant since;
  bool forgiven = false;  // an administrator has opened the node all the same
  friend bool operator==(const Unconfirmed&, const Unconfirmed&) = default;
};

// Of what a node has less left than its settings want, by its own word.
struct Shortage {
  enum class What : unsigned char {
    kMemory,      // bytes
    kDisk,        // bytes of the file system where its work has its files
    kDiskFiles,   // files that this file system still holds
    kImages,      // bytes of the file system where images lie
    kImageFiles,  // files that that one still holds
    kProcesses,   // processes that may still be made
  } what = What::kMemory;
  bool acute = true;  // it is so now. Else it was a short while ago, and is not taken for over yet
  std::int64_t available = 0, threshold = 0;  // when it was measured last; 0 = not told
  Instant since;                              // the cluster's time: the node says so without a break since then
  Instant measured;                           // likewise, of the latest word
  friend bool operator==(const Shortage&, const Shortage&) = default;
};
inline constexpr std::size_t kShortagesMax = 6;  // one of each

// What counts of a node's word about itself where that draws others' work or packets to it. Settled when it joins, by
// its token and its first hello; from then on only an administrator changes it.
struct NodeTerms {
  bool settled = false;    // false: a record from before there were terms. What it has is settled at its next hello
  bool open = false;       // features, domains and counted resources are settled anew at its next hello
  std::string address;     // "" = the one that its connection comes from
  std::string task_range;  // "" = none
  std::vector<Counted> counted;  // so many at most; sorted by name
  std::vector<std::string> domains;
  friend bool operator==(const NodeTerms&, const NodeTerms&) = default;
};

// Of front ends' services, on every node: no node's address or range lies there.
inline constexpr const char* kServiceRange = "10.96.0.0/16";

struct Node {
  Meta meta;  // meta.name is the node name
  NodeId id;
  std::string address;     // where its tasks are reached: "10.77.3.2"
  std::string task_range;  // of addresses that its tasks get: "10.77.128.0/25"; "" = it has none to give
  std::string hostname;
  std::string boot_id;  // of the machine; a new one proves that everything before is gone
  std::string version;  // of the agent
  std::uint32_t sockets = 1, cores = 1, threads_per_core = 1;
  std::int64_t memory_mb = 0, tmp_disk_mb = 0;
  std::vector<CoreSet> numa;  // the cores of each NUMA node; empty: not known
  std::vector<Device> devices;
  std::vector<Counted> counted;  // sorted by name
  // Of those, what was said of the node, not by it. Sorted by name.
  std::vector<Counted> added_counted;
  Labels labels;
  std::vector<NodeMark> marks;
  std::vector<std::string> features;
  std::vector<std::string> domains;  // topology path, outermost first: {"block1","leaf3"}
  std::uint32_t weight = 1;          // lighter nodes are taken first
  NodeLink link = NodeLink::kUnknown;
  bool drain = false;                    // takes no new work, as an administrator decided
  bool unfit = false;                    // nor does it as its agent says, while it says so
  std::vector<Unconfirmed> unconfirmed;  // nor while one of these is not forgiven; sorted by job
  std::vector<HealthFinding> health;     // nor while one of these closes it; sorted by check
  std::string reason;                    // why it is drained or down, as somebody said: see reason_of()
  UserId reason_by;
  std::string word;                     // what it says itself is wrong with it; "" = nothing
  Instant word_at;                      // since when it says so
  Instant reason_at, boot_at, seen_at;  // seen_at: last hello, break of the connection, or loss
  std::vector<Shortage> shortages;      // as it says; sorted by what, none twice
  bool has_fence_hook = false;          // someone can prove it stopped (virtual, cloud, power)
  Duration hooks_take;                  // its prolog and its epilog may take so long each, at most; 0 = it has none
  std::string certificate;              // serial of the only one that counts; "" = the first that comes is kept
  std::string next_certificate;       // serial of its successor, which counts alone from its first hello on; "" = none
  bool replaced = false;              // the name was given to another machine: a new boot id proves nothing
  bool trust_administrators = false;  // who is root or administrator there is so for the cluster
  // While a class names it, its features and weight are those that the class makes of its own (core/node_classes).
  std::string node_class;                 // "" = none does: what follows is unused
  std::vector<std::string> own_features;  // as its agent or an administrator says
  std::uint32_t own_weight = 0;
  NodeTerms terms;
};
// What an administrator settles about nodes by their names, before or after they join. An agent tells what its machine
// has; a class says what is added to that, and what ought to be there. A node is in one class at most.
struct NodeClass {
  Meta meta;                          // meta.name
  std::vector<std::string> nodes;     // host names
  std::vector<std::string> features;  // besides those that the agent tells
  std::uint32_t weight = 0;           // instead of the agent's; 0 = as the agent tells
  // What each node ought to have, at least. What is less is shown, and closes nothing.
  std::uint32_t cores = 0;
  std::int64_t memory_mb = 0;
  std::uint32_t gpus = 0;
  std::string gpu_type;  // "" = any
};
inline constexpr std::size_t kClassFeaturesMax = 64;  // a node has so many beside its own

// What the node lacks of what its class expects: "has 32 cores, its class gpu expects 64". Empty: nothing.
std::vector<std::string> shortfalls(const NodeClass& expected, const Node& node);

inline constexpr std::size_t kUnconfirmedMax = 1024;      // of a node: one is enough to keep it closed
inline constexpr const char* kNoCertificate = "revoked";  // Node::certificate: none counts
bool node_drained(const Node& node);
bool node_usable(const Node& node);  // link up and not drained
// Up, and closed by nothing but what this health check found: the check may run there, so that it may open the node.
bool node_checkable(const Node& node, std::string_view check);
const HealthFinding* finding_of(const Node& node, std::string_view check);  // null: none

const Unconfirmed* unconfirmed_of(const Node& node, JobId job);  // null: none

// What is said of it, and what it does not confirm.
struct NodeReason {
  std::string words;  // empty: nothing
  UserId by;          // 0: itself, or the core
  Instant at;
};
NodeReason reason_of(const Node& node);

}  // namespace lockstep
