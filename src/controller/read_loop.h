// ReadLoop: the thread on which long answers are made that look at the tables only, away from the one that answers
// everybody and renews leases, and from the one that searches accounting. It has tables of its own, with every commit
// whose caller was answered. One question at a time, callers in turn; each may have a few waiting.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <variant>

#include "controller/caller_queue.h"
#include "controller/engine.h"
#include "controller/mailbox.h"
#include "controller/turns.h"
#include "model/tables.h"

namespace lockstep {

class ReadLoop {
 public:
  using Question = std::function<void(const Tables&)>;
  ReadLoop(std::span<const Change> snapshot, CallerCounts::Most most);
  ~ReadLoop() { stop(); }
  void start();
  void stop();  // what waits is still answered

  void take(std::shared_ptr<const Engine::Batch> batch) { inbox_.post(std::move(batch)); }
  // For a caller of the API; kExhausted when too many wait.
  Result<void> ask(const Payer& payer, Question question);
  void ask(Question question) { inbox_.post(Asked{"", std::move(question)}); }  // ours

 private:
  struct Asked {
    std::string caller;  // "" = ourselves
    Question question;
  };
  struct Stop {};
  using Message = std::variant<std::shared_ptr<const Engine::Batch>, Asked, Stop>;
  void run();
  void take_in(Message& message);

  Tables tables_;
  Mailbox<Message> inbox_;
  CallerCounts counts_;
  CallerQueue<Asked> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
