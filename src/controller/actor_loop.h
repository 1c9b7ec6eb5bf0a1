// ActorLoop: a thread on which actors read and act. No polling: it sleeps until a batch or an answer comes, or an actor
// names a moment.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "controller/cluster_clock.h"
#include "controller/engine.h"
#include "controller/mailbox.h"
#include "ports/actor.h"

namespace lockstep {

class ActorLoop {
 public:
  struct Outputs {
    std::function<void(Command, Engine::Reply)> submit;  // the reply may come on any thread, after the batch
    // as_of: the last change that was seen when they were made. Readers may not have come so far yet.
    std::function<void(std::vector<PlanNote>, Seq as_of)> on_notes = {};
  };
  // name: of the thread, in messages. snapshot: every record before the first batch that observe() will bring.
  ActorLoop(std::string name, std::vector<std::unique_ptr<Actor>> actors, std::span<const Change> snapshot,
            const ClusterClock& clock, Outputs outputs);
  ~ActorLoop();
  void start();
  void stop();

  // From any thread, in the order of commits.
  void observe(std::shared_ptr<const Engine::Batch> batch) { inbox_.post(std::move(batch)); }

 private:
  struct Answered {
    Actor* actor = nullptr;
    std::uint64_t id = 0;
    Result<Answer> answer;
  };
  struct Stop {};
  using Message = std::variant<std::shared_ptr<const Engine::Batch>, Answered, Stop>;

  void run();
  void take(Message& message);
  void step(Actor& actor);
  Duration patience() const;

  const std::string name_;
  const std::vector<std::unique_ptr<Actor>> actors_;
  const ClusterClock& clock_;
  Outputs outputs_;
  Mailbox<Message> inbox_;
  bool stopping_ = false;
  Seq seen_ = 0;  // the last change observed
  std::thread thread_;
};

}  // namespace lockstep
