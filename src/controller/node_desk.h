// NodeDesk: the controller's side of all agents, without any socket. Messages in, commands and messages out; leases,
// losses, fences and repeats are decided here. The chaos simulator drives the same object.
//
// Fences: an agent counts fence_after from the *sending* of the last acknowledged renewal, so a node is proven stopped
// at (our sending of that acknowledgement) + fence_after + drift. After a controller start every node counts from that
// start.
//
// Silence: only time in which we could have heard a node counts against it. The shell lets a beat travel the way that
// renewals come, twice a second; where beats are missing, our process, a thread of it or the machine stood still, and
// that time is taken off every node's silence. Fences are not touched by this: agents' clocks went on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "model/agent_messages.h"

namespace lockstep {

inline constexpr Duration kBeatEvery = millis(500);  // how often the shell calls beat()
inline constexpr Duration kBeatLate = seconds(1);    // a longer gap between two beats is a pause of our own

struct NodeDeskSettings {
  Duration lease_term = seconds(9);     // renewals come three times a term
  Duration node_timeout = seconds(30);  // silent for this long: NodeLost
  Duration drift = seconds(5);
  Duration resend_after = seconds(2);  // reconcile a node again when it still lacks what it was sent
  // A lost node's work that no fence ends (it may not run twice) is given up this long after the node was acknowledged
  // last, plus drift.
  Duration give_up_after = minutes(15);
};

class NodeDesk {
 public:
  // compose fills a launch from the state (environment, script text); front ends add their words there.
  struct Composer {
    std::function<Result<LaunchAttempt>(const Tables&, const Job&, std::size_t grant)> attempt;
    std::function<Result<LaunchStep>(const Tables&, const Job&, const Step&, std::size_t place)> step;
    std::function<Result<LaunchTask>(const Tables&, const Job&, const Task&)> task;
    // What a launch's process.env_base stands for. Empty: no launch names any.
    std::function<std::shared_ptr<const std::string>(const BlobId&)> environment{};
    // Bytes that were read and taken apart for launches since it was asked last. Empty: none.
    std::function<std::size_t()> bytes_read{};
  };
  NodeDesk(NodeDeskSettings settings, Composer composer, Instant now);
  ~NodeDesk();

  // Links. A second link of the same node replaces the first. `link` is the caller's name for the connection;
  // certificate: the serial of the one that proves the name, "" where there is no TLS.
  // address: from which it was dialled.
  void connected(std::uint64_t link, const std::string& node_name, Instant now, const std::string& certificate = {},
                 const std::string& address = {});
  void disconnected(std::uint64_t link, Instant now);
  void receive(std::uint64_t link, FromAgent message, const ClusterState& state, Instant now);

  // A committed batch: its actions become messages, its reports acknowledgements.
  void committed(const ClusterState& state, std::span<const Change> changes, std::span<const Action> actions,
                 Instant now);

  // A fence hook's answer: the machine behind this node is certainly off.
  void fenced(NodeId node, std::string proof);

  // We hear: called every kBeatEvery, on the same way that renewals take, and only while they are taken.
  void beat(Instant now);

  void tick(const ClusterState& state, Instant now);
  Instant next_timer() const;

  // Drained by the shell, also after every tick: what else there is to launch is composed when these have been taken.
  // After a command's reply, call answered() with its token.
  struct Outgoing {
    std::uint64_t link;
    ToAgent message;
    std::shared_ptr<const std::string> environment = nullptr;  // that a launch names, shared by all of them
  };
  std::vector<Outgoing> take_messages();
  struct ToCommit {
    Command command;
    std::uint64_t token;
  };
  std::vector<ToCommit> take_commands();
  void answered(std::uint64_t token, const Result<Answer>& answer, const ClusterState& state, Instant now);
  // Nodes without a link that have a fence hook: the shell asks the hook and calls fenced(). A hook that acts instead
  // of looking waits until the silence is long enough.
  struct FenceRequest {
    NodeId node;
    Duration silence;  // since it was heard, our own pauses taken off
  };
  std::vector<FenceRequest> take_fence_requests();

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

}  // namespace lockstep
