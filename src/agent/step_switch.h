// StepSwitch: an agent's part in a step's input and output beyond its own shims. For a client on this node it reaches
// the step's nodes itself, as the controller tells it (kRoute), and leaves to the controller what it cannot dial; for
// another agent it spreads a stream over the shim here and the nodes below it. Above kFanOut nodes they form a tree.
//
// It keeps nothing of what passes. Whatever goes wrong on a way that was already in use ends the client's stream: the
// client attaches again, saying what it has, and a node that failed is then reached through the controller.
#pragma once

#include <map>
#include <memory>

#include "agent/peers.h"

namespace lockstep {

class StepSwitch {
 public:
  static constexpr std::size_t kFanOut = 32;

  // A stream to the shim on this node, null when it is not (any more) here; called once, perhaps at once.
  using Here = std::function<void(const StepTicket& ticket, Peers::Opened done)>;
  StepSwitch(EventLoop& loop, Peers& peers, std::string node_name, Here here);
  ~StepSwitch();
  StepSwitch(StepSwitch&&) = delete;

  // A local client's stream, and the one that the controller opened for it.
  void serve(std::unique_ptr<Stream> client, std::unique_ptr<Stream> controller);
  // Another agent's stream, its ticket verified.
  void spread(StepOpen what, std::unique_ptr<Stream> above);
  std::size_t sessions() const { return sessions_.size(); }

  struct Session;

 private:
  std::shared_ptr<Session> begin(std::unique_ptr<Stream> up, std::unique_ptr<Stream> control);
  void remove(std::uint64_t id);

  EventLoop& loop_;
  Peers& peers_;
  std::string node_name_;
  Here here_;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::uint64_t next_ = 1;
};

// The first hops of a route, at most StepSwitch::kFanOut of them: each member with those that lie below it.
struct StepHop {
  StepMember member;
  std::vector<StepMember> below;
};
std::vector<StepHop> first_hops(std::vector<StepMember> members);

}  // namespace lockstep
