// HistoryLoop: the thread that keeps accounting. It brings the history store up to date from the log when it starts,
// then takes every batch, those of a moment in one transaction: its syncs are not to stand in the way of the log's.
// Questions about history are answered here too, beside its own tables, when everything posted before is in.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "controller/engine.h"
#include "controller/mailbox.h"
#include "ports/history.h"
#include "ports/log.h"

namespace lockstep {

class HistoryLoop {
 public:
  using Question = std::function<void(HistoryStore&, const Tables&)>;
  // on_cursor: everything up to this log index is in; called on this thread.
  HistoryLoop(HistoryStore& store, std::function<void(std::uint64_t)> on_cursor);
  ~HistoryLoop();

  // Before start(): what the store has not seen yet comes from the log, the rest of the tables from the snapshot.
  Result<void> catch_up(Log& log, const std::vector<Change>& snapshot);
  void start();
  void stop();

  void take(std::shared_ptr<const Engine::Batch> batch) { inbox_.post(std::move(batch)); }
  void ask(Question question) { inbox_.post(std::move(question)); }

 private:
  struct Stop {};
  using Message = std::variant<std::shared_ptr<const Engine::Batch>, Question, Stop>;
  void run();
  bool store_backlog();

  HistoryStore& store_;
  std::function<void(std::uint64_t)> on_cursor_;
  Tables tables_;
  std::vector<std::shared_ptr<const Engine::Batch>> backlog_;  // observed by the tables, not yet stored
  std::size_t gathered_ = 0;                                   // changes in it
  Mailbox<Message> inbox_;
  bool stopping_ = false;
  bool failing_ = false;
  std::thread thread_;
};

}  // namespace lockstep
