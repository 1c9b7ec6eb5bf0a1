// NodeDesk: the controller's side of all agents, without any socket. Messages in, commands and messages out; leases,
// losses, fences and repeats are decided here. The chaos simulator drives the same object.
//
// Fences: an agent counts fence_after from the *sending* of the last acknowledged renewal, so a node is proven stopped
// at (our sending of that acknowledgement) + fence_after + drift. After a controller start every node counts from that
// start.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "model/agent_messages.h"

namespace lockstep {

struct NodeDeskSettings {
  Duration lease_term = seconds(9);     // renewals come three times a term
  Duration node_timeout = seconds(30);  // no renewal for this long: NodeLost
  Duration drift = seconds(5);
  Duration resend_after = seconds(2);  // reconcile a node again when it still lacks what it was sent
};

class NodeDesk {
 public:
  // compose fills a launch from the state (environment, script text); front ends add their words there.
  struct Composer {
    std::function<Result<LaunchAttempt>(const Tables&, const Job&, std::size_t grant)> attempt;
    std::function<Result<LaunchStep>(const Tables&, const Job&, const Step&, std::size_t place)> step;
    std::function<Result<LaunchTask>(const Tables&, const Job&, const Task&)> task;
  };
  NodeDesk(NodeDeskSettings settings, Composer composer, Instant now);
  ~NodeDesk();

  // Links. A second link of the same node replaces the first. `link` is the caller's name for the connection.
  void connected(std::uint64_t link, const std::string& node_name, Instant now);
  void disconnected(std::uint64_t link, Instant now);
  void receive(std::uint64_t link, FromAgent message, const ClusterState& state, Instant now);

  // A committed batch: its actions become messages, its reports acknowledgements.
  void committed(const ClusterState& state, std::span<const Change> changes, std::span<const Action> actions,
                 Instant now);

  // A fence hook's answer: the machine behind this node is certainly off.
  void fenced(NodeId node, std::string proof);

  void tick(const ClusterState& state, Instant now);
  Instant next_timer() const;

  // Drained by the shell. After a command's reply, call answered() with its token.
  struct Outgoing {
    std::uint64_t link;
    ToAgent message;
  };
  std::vector<Outgoing> take_messages();
  struct ToCommit {
    Command command;
    std::uint64_t token;
  };
  std::vector<ToCommit> take_commands();
  void answered(std::uint64_t token, const Result<Answer>& answer, const ClusterState& state, Instant now);
  // Nodes lost with work on them that have a fence hook: the shell asks the hook and calls fenced().
  std::vector<NodeId> take_fence_requests();

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

}  // namespace lockstep
