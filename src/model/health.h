// Health checks that run as jobs: what an administrator asks for, and what they have found on a node.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "model/exit_status.h"
#include "model/ids.h"
#include "model/meta.h"

namespace lockstep {

enum class OnUnhealthy : unsigned char { kDrain, kTell };

inline constexpr std::size_t kHealthChecksMax = 32;         // of the cluster: each node has a finding of each
inline constexpr Duration kHealthEveryLeast = seconds(10);  // from one end to the next start
inline constexpr Duration kHealthLimitMost = hours(24);
// A run that told nothing, since it was preempted, cancelled or lost, is made again no sooner after its start.
inline constexpr Duration kHealthPause = minutes(1);

// A check that has passed nowhere closes so many nodes: rather it is at fault than one more node.
inline constexpr std::size_t kUnprovenMost = 3;

// A program that runs as a job on each of its nodes while that is idle, again and again.
struct HealthCheck {
  Meta meta;            // meta.name
  std::string user;     // login name of the ordinary user that it runs as
  std::string account;  // "" = the user's default one
  std::string script;   // text; a first line "#!PROGRAM" names another shell than /bin/sh
  Duration every = hours(24);
  Duration time_limit = minutes(10);
  // Only nodes that all three allow.
  std::vector<std::string> nodes;  // host names; {"ALL"} = every node
  std::string node_class;          // "" = any
  std::string partition;           // where it runs; "" = in any that has the node
  bool gpus = false;               // it is given all GPUs of the node
  std::string output;              // file pattern, as of a job (%N, %j); "" = nowhere
  OnUnhealthy on_failure = OnUnhealthy::kDrain;
  Instant changed;  // when it became what it is: findings of before are looked at anew
};

// healthy: the last run that told something ended with 0. suspect: it failed, and its check only tells, or has failed
// wherever it ran (kUnprovenMost). bad: it failed, and its check closes nodes.
enum class HealthVerdict : unsigned char { kUnknown, kHealthy, kSuspect, kBad };

struct HealthFinding {
  std::string check;
  HealthVerdict verdict = HealthVerdict::kUnknown;
  Instant began;  // start of the last run, whatever became of it
  Instant at;     // end of the last that told something; 0 = none has yet. The rest is of that one
  JobId job;
  ExitStatus exit;
  bool timed_out = false;
  bool closes =
      false;  // the node takes no work for it; only with kBad: an administrator may have opened it all the same
  friend bool operator==(const HealthFinding&, const HealthFinding&) = default;
};

struct Node;

// Whether the check is meant for the node, by its name and class; its partition is another matter.
bool checks_node(const HealthCheck& check, const Node& node);
// When the next run may begin on a node with this finding (null: there is none); Instant{} = at any time.
Instant health_due(const HealthCheck& check, const HealthFinding* finding);
// How many runs there may be at once in a cluster of so many nodes: a twentieth of them, one at least.
std::size_t health_runs_most(std::size_t nodes);

// What it rests on: "exit code 3 (job 1234)"; "" without a run that told something.
std::string evidence_of(const HealthFinding& finding);

}  // namespace lockstep
