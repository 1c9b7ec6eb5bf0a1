// `lockstep doctor`: a table of checks over a patient, which is what of a cluster lies on this machine: its controller,
// its nodes, or both. Each check adds what it found; the doctor changes nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/local_cluster.h"
#include "model/meta.h"
#include "model/node.h"

namespace lockstep {

// A note is worth knowing and needs no work; unknown is what could not be looked at.
enum class Severity : unsigned char { kError, kWarning, kNote, kUnknown };

struct Finding {
  Severity severity = Severity::kNote;
  std::string check;
  std::string which;  // node, file, port …
  std::string what;   // is wrong with it
  std::string mend;   // a command, or what to do; "" = nothing
};

class Diagnosis {
 public:
  void begin(std::string_view check) { check_ = check; }
  void error(std::string which, std::string what, std::string mend) {
    add(Severity::kError, std::move(which), std::move(what), std::move(mend));
  }
  void warning(std::string which, std::string what, std::string mend) {
    add(Severity::kWarning, std::move(which), std::move(what), std::move(mend));
  }
  void note(std::string which, std::string what, std::string mend = {}) {
    add(Severity::kNote, std::move(which), std::move(what), std::move(mend));
  }
  void unknown(std::string which, std::string why) { add(Severity::kUnknown, std::move(which), std::move(why), {}); }
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  void add(Severity severity, std::string which, std::string what, std::string mend) {
    findings_.push_back({severity, check_, std::move(which), std::move(what), std::move(mend)});
  }
  std::string check_;
  std::vector<Finding> findings_;
};

// A node whose agent runs on this machine, by the agent's settings.
struct NodeHere {
  std::string settings;  // path
  AgentFile file;
  bool is_virtual() const { return file.fence_hook; }  // in a network and with a /run of its own
};

struct Patient {
  // The controller.
  bool has_controller = false;
  bool is_installed = false;
  bool may_look = false;  // into its directory: we are root, or its owner
  uid_t owner = 0;
  ClusterDir dir;
  std::optional<ClusterConf> conf;       // of one that `lockstep up` made
  std::optional<ClusterStatus> status;   // what it says, and what its notes say
  bool is_quiet = false;                 // restored, and not taken over
  std::vector<Ref<Node>> nodes;          // as it knows them
  std::map<std::string, double> gauges;  // of /metrics, those without labels
  // The nodes here.
  std::vector<NodeHere> here;
  std::string unreadable_agent;  // settings that are there and may not be read
  std::string wrong_agent;       // settings that are there and mean nothing
  std::string wrong_agent_why;
};

struct Check {
  std::string_view name;
  std::string_view looks_at;
  void (*controller)(const Patient&, Diagnosis&);             // null: it has nothing to look at there
  void (*node)(const Patient&, const NodeHere&, Diagnosis&);  // the same
};

// In the order in which they are made and told.
extern const Check kControllerCheck, kNodesCheck, kVersionsCheck, kNamesCheck, kPortsCheck, kModesCheck, kDisksCheck,
    kCertificatesCheck, kGpusCheck, kUnitsCheck, kKernelCheck, kClockCheck, kAgentCheck, kAccountingCheck;

// What a program prints; nullopt where it is not there or fails.
std::optional<std::string> output_of(const std::vector<std::string>& argv);
// Whether somebody accepts connections there.
bool accepts(const std::string& host, std::uint16_t port);
// "python3 (process 12)" that listens on a port of this machine; "" = nobody, or it cannot be told.
std::string listener_on(const std::string& address, std::uint16_t port);

}  // namespace lockstep
