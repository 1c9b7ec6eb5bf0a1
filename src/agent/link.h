// AgentLink: the agent's end of its one connection to the controller. Carries over it the messages of AgentLogic, the
// calls of local clients, and byte streams in both directions. Calls and streams we begin have odd numbers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "model/agent_messages.h"
#include "ports/loop.h"
#include "wire/api_call.h"
#include "wire/frame.h"
#include "wire/step_route.h"

namespace lockstep {

class AgentLink {
 public:
  struct Handlers {
    std::function<void(ToAgent)> message;
    std::function<void(StepOpen, std::unique_ptr<Stream>)> open_step;  // dropping the stream refuses
    std::function<void(std::string why)> closed;                       // once; the link may be destroyed from here on
  };
  AgentLink(std::unique_ptr<Stream> stream, Handlers handlers);
  ~AgentLink();  // silent: no call is answered any more
  AgentLink(AgentLink&&) = delete;

  void send(const FromAgent& message);

  // The answer of a forwarded call. stream: set with status 101, and where its body is a stream. Error: the connection
  // was lost while waiting.
  using Answered = std::function<void(Result<ApiReply>, std::unique_ptr<Stream> stream)>;
  // Asked before an answer that long is collected here; false refuses it.
  using Room = std::function<bool(std::size_t bytes)>;
  std::uint64_t call(ApiCall call, Answered answered, Room room = nullptr);
  void abandon(std::uint64_t call);  // its client is gone
  void close(std::string why);       // as if the peer had: open calls and streams end, closed() is called

  std::uint64_t frames_received() const;  // grows while the peer is alive

  struct Inner;

 private:
  std::shared_ptr<Inner> inner_;  // shared with the connection's callbacks, in which it may be destroyed
};

}  // namespace lockstep
