// LaunchLane: how launches with long environments leave over one agent's link. An environment is shared by all launches
// that name it, goes to each node once, and is cut into pieces that are charged to its owner one by one; launches that
// need it wait until it has left, and with them whatever is said of their jobs later. A launch that is long by itself,
// by its arguments or its script, is charged the same way. Everything else passes by. What waits is bounded, by user:
// a launch beyond that is dropped, because the desk says it again as long as the node lacks it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/fair_share.h"
#include "model/agent_messages.h"
#include "ports/loop.h"

namespace lockstep {

// Lines as in the environment of a job, each ended by a NUL.
using SharedLines = std::shared_ptr<const std::string>;

// Bytes of the words that a launch carries itself; 0: it launches nothing.
std::size_t launch_bytes(const ToAgent& message);

class LaunchLane : public std::enable_shared_from_this<LaunchLane> {
 public:
  struct Ways {
    std::function<void(const ToAgent&)> send;
    // A stream to the agent, which `head` announces to it (wire/long_environment.h). Null: the link is gone.
    std::function<std::unique_ptr<Stream>(const std::string& head, std::uint32_t uid)> open;
    // Runs the work, which sends so many bytes, when it is that user's turn; never from within the call.
    std::function<void(std::uint32_t uid, std::size_t bytes, std::function<void()> work)> in_turn;
    std::function<void(std::string why)> give_up;  // ends the link
  };
  explicit LaunchLane(Ways ways);

  // The message leaves, at once or after the environment that it names.
  void take(ToAgent message, SharedLines environment);
  void end();  // the link is closing: what waits is dropped, and nothing is taken any more
  std::size_t waiting() const { return held_back_; }  // messages

 private:
  struct Waiting {
    ToAgent message;
    JobId job;
    SharedLines environment;  // null: it needs none
    std::size_t price = 0;    // bytes of its own that are still to be paid for
    FairHold memory = {};
    std::shared_ptr<FairHold> shared_memory = {};  // of the environment, with others of the line that name it
  };
  struct Line {  // of one user
    std::deque<Waiting> waiting;
    std::unique_ptr<Stream> stream;  // for the first one's environment, while that is being sent
    std::size_t sent = 0;            // of its bytes
    std::uint64_t turn = 0;          // the one that is awaited, 0 = none; callbacks of others are late
  };
  struct Kept {
    std::size_t bytes = 0;
    std::uint64_t used = 0;  // when, in uses
  };

  void hold_back(std::uint32_t uid, Waiting what);
  bool waits_already(std::uint32_t uid, const Waiting& what) const;
  bool has_room(std::uint32_t uid, Waiting& what);  // and takes it
  bool use(const Waiting& what);                    // whether it needs no environment, or the agent has that
  void advance(std::uint32_t uid);
  void open(std::uint32_t uid, Line& line);
  void opened(std::uint32_t uid, Line& line);
  void advance_parked();
  void next_piece(std::uint32_t uid);
  void send_piece(std::uint32_t uid);
  // Runs the member in the user's turn, unless the line is another one by then.
  void await_turn(std::uint32_t uid, std::size_t bytes, void (LaunchLane::*then)(std::uint32_t));
  void paid(std::uint32_t uid);
  void sent(std::uint32_t uid);
  void refused(std::uint32_t uid);
  void end_stream(std::uint32_t uid, Line& line);
  void left(const Waiting& one);             // it waits no more
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
  std::map<BlobId, std::size_t> opening_;  // bytes of those that lines are sending
  std::size_t opening_bytes_ = 0;
  // Lines that wait for one of those, in the order in which they came: it is theirs too, or leaves no room for theirs.
  std::deque<std::uint32_t> parked_;
  bool room_wanted_ = false;  // by one of the parked: nobody gets what it waits for before it does
  std::shared_ptr<FairShare> memory_;
  bool ended_ = false;
  std::uint64_t uses_ = 0, turns_ = 0;
};

}  // namespace lockstep
