// LaunchLane: how launches with long environments leave over one agent's link. An environment is shared by all launches
// that name it, goes to each node once, and is cut into pieces that are charged to its owner one by one; launches that
// need it wait until it has left, and with them whatever is said of their jobs later. A launch that is long by itself,
// by its arguments or its script, is charged the same way. Everything else passes by.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "model/agent_messages.h"
#include "ports/loop.h"

namespace lockstep {

// Lines as in the environment of a job, each ended by a NUL.
using SharedLines = std::shared_ptr<const std::string>;

class LaunchLane : public std::enable_shared_from_this<LaunchLane> {
 public:
  struct Ways {
    std::function<void(const ToAgent&)> send;
    // A stream to the agent, which `head` announces to it (wire/long_environment.h).
    std::function<std::unique_ptr<Stream>(const std::string& head, std::uint32_t uid)> open;
    // Runs the work, which sends so many bytes, when it is that user's turn; never from within the call.
    std::function<void(std::uint32_t uid, std::size_t bytes, std::function<void()> work)> in_turn;
    std::function<void(std::string why)> give_up;  // ends the link
  };
  explicit LaunchLane(Ways ways) : ways_(std::move(ways)) {}

  // The message leaves, at once or after the environment that it names.
  void take(ToAgent message, SharedLines environment);
  std::size_t waiting() const { return held_back_; }  // messages

 private:
  struct Waiting {
    ToAgent message;
    JobId job;
    SharedLines environment;  // null: it needs none
    std::size_t price = 0;    // bytes of its own that are still to be paid for
  };
  struct Line {  // of one user
    std::deque<Waiting> waiting;
    std::unique_ptr<Stream> stream;  // for the first one's environment, while that is being sent
    std::size_t sent = 0;            // of its bytes
    std::uint64_t turn = 0;          // the one that is awaited; callbacks of others are late
  };
  struct Kept {
    std::size_t bytes = 0;
    std::uint64_t used = 0;  // when, in uses
  };

  void hold_back(std::uint32_t uid, Waiting what);
  void advance(std::uint32_t uid);
  void open(std::uint32_t uid, Line& line);
  void next_piece(std::uint32_t uid);
  void send_piece(std::uint32_t uid);
  // Runs the member in the user's turn, unless the line is another one by then.
  void await_turn(std::uint32_t uid, std::size_t bytes, void (LaunchLane::*then)(std::uint32_t));
  void paid(std::uint32_t uid);
  void sent(std::uint32_t uid);
  void refused(std::uint32_t uid);
  std::string make_room(std::size_t bytes);  // the names that the agent forgets, each after a blank

  Ways ways_;
  std::map<std::uint32_t, Line> lines_;  // Invariant: none is empty
  struct Held {
    std::uint32_t uid = 0;
    std::size_t messages = 0;
  };
  std::map<JobId, Held> held_;  // jobs of which something waits
  std::size_t held_back_ = 0;
  std::map<BlobId, Kept> kept_;  // by the agent
  std::size_t kept_bytes_ = 0;
  std::uint64_t uses_ = 0, turns_ = 0;
};

}  // namespace lockstep
