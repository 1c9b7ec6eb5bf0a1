// QuestionLoop: the thread that answers "why" and "what if". Every question gets its own copy of the tables and may
// plan for as long as it takes; nobody else waits for it. One at a time, callers in turn; each may have a few waiting.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <variant>

#include "controller/caller_queue.h"
#include "controller/history_loop.h"
#include "controller/mailbox.h"
#include "controller/read_loop.h"
#include "controller/turns.h"

namespace lockstep {

class QuestionLoop {
 public:
  using Rows = Result<std::vector<JobRow>>;
  using Question = std::function<void(const Tables&, const Rows&)>;
  // Tables are copied on the thread that has them for readers.
  QuestionLoop(ReadLoop& reads, HistoryLoop& history, CallerCounts::Most most)
      : reads_(reads), history_(history), counts_(most) {}
  ~QuestionLoop();
  void start();
  void stop();  // while those two still run; a question that is being answered is waited for

  // kExhausted when too many wait already. The question runs on this loop's thread. With a query it gets what history
  // has for it, else no rows.
  Result<void> ask(const Payer& payer, Question question, std::optional<HistoryQuery> query = std::nullopt);

 private:
  struct Asked {
    std::string caller;
    Question question;
    std::optional<HistoryQuery> query;
  };
  struct Stop {};
  using Message = std::variant<Asked, Stop>;
  void run();
  void answer(const Asked& asked);

  ReadLoop& reads_;
  HistoryLoop& history_;
  CallerCounts counts_;
  std::atomic<bool> stopping_ = false;
  Mailbox<Message> inbox_;
  CallerQueue<Asked> waiting_;
  std::thread thread_;
};

}  // namespace lockstep
