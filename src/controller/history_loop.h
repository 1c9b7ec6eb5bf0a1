// HistoryLoop: the thread that keeps accounting. It brings the history store up to date from the log when it starts,
// then takes every batch, those of a moment in one transaction: its syncs are not to stand in the way of the log's.
// Questions about history are answered here too, when everything posted before is stored: one at a time, callers in
// turn.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "controller/caller_queue.h"
#include "controller/engine.h"
#include "controller/mailbox.h"
#include "controller/turns.h"
#include "ports/history.h"
#include "ports/log.h"

namespace lockstep {

class HistoryLoop {
 public:
  using Question = std::function<void(HistoryStore&, const Tables&)>;
  // on_cursor: everything up to this log index is in; tell: the lines a log gets of a batch. Both are called
  // on this thread; tell may be null.
  HistoryLoop(HistoryStore& store, CallerCounts::Most most, std::function<void(std::uint64_t)> on_cursor,
              std::function<void(const std::vector<std::string>&)> tell = {});
  ~HistoryLoop();

  // Before start(): what the store has not seen yet comes from the log, the rest of the tables from the snapshot.
  // told: how far it is, some entries at a time; may be null.
  Result<void> catch_up(Log& log, BlobStore& blobs, const std::vector<Change>& snapshot,
                        const std::function<void(std::uint64_t entry, std::uint64_t last)>& told = {});
  void start();
  void stop();

  void take(std::shared_ptr<const Engine::Batch> batch) {
    taken_ += batch->changes.empty() ? 0 : 1;
    inbox_.post(std::move(batch));
  }
  // Batches that are in the log and not in the store yet; whether the store said no the last time. From any thread.
  std::uint64_t behind() const { return taken_ - stored_; }
  bool failing() const { return failing_; }
  // From other threads of the controller.
  void ask(Question question) { inbox_.post(Asked{"", std::move(question)}); }
  // For a caller of the API; kExhausted when too many wait. Before it is answered, everything that was committed is
  // stored.
  Result<void> ask(const Payer& payer, Question question);

 private:
  struct Asked {
    std::string caller;  // "" = ourselves
    Question question;
  };
  struct Stop {};
  using Message = std::variant<std::shared_ptr<const Engine::Batch>, Asked, Stop>;
  void run();
  void take_in(Message& message);
  bool store_backlog();
  void answer(const Asked& asked);

  HistoryStore& store_;
  std::function<void(std::uint64_t)> on_cursor_;
  std::function<void(const std::vector<std::string>&)> tell_;
  Tables tables_;
  std::vector<std::shared_ptr<const Engine::Batch>> backlog_;  // observed by the tables, not yet stored
  std::size_t gathered_ = 0;                                   // changes in it
  Mailbox<Message> inbox_;
  CallerCounts counts_;
  CallerQueue<Asked> waiting_;
  bool stopping_ = false;
  std::atomic<bool> failing_ = false;
  std::atomic<std::uint64_t> taken_ = 0, stored_ = 0;  // batches
  std::thread thread_;
};

}  // namespace lockstep
