// QuestionLoop: the thread that answers "why" and "what if". Every question gets its own copy of the tables and may
// plan for as long as it takes; nobody else waits for it. One at a time, in turn; a long queue is refused.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <variant>

#include "controller/history_loop.h"
#include "controller/mailbox.h"

namespace lockstep {

class QuestionLoop {
 public:
  using Question = std::function<void(const Tables&)>;
  // The history's thread has tables of its own, as of every commit that anybody was told of; they are copied there.
  explicit QuestionLoop(HistoryLoop& history) : history_(history) {}
  ~QuestionLoop();
  void start();
  void stop();  // while the history still runs; a question that is being answered is waited for

  // kExhausted when too many wait already. The question runs on this loop's thread.
  Result<void> ask(Question question);

 private:
  struct Stop {};
  using Message = std::variant<Question, Stop>;
  void run();

  static constexpr std::uint32_t kWaitingMax = 16;
  HistoryLoop& history_;
  std::atomic<std::uint32_t> waiting_ = 0;
  std::atomic<bool> stopping_ = false;
  Mailbox<Message> inbox_;
  std::thread thread_;
};

}  // namespace lockstep
