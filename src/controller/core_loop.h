// CoreLoop: the thread that owns the engine and the node desk. It takes everything that is queued, makes one batch of
// it, and hands out what came of it in one piece: first the batch, then the answers, then messages for nodes. It sleeps
// until something is posted or the next timer of core or desk is due.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "controller/cluster_clock.h"
#include "controller/engine.h"
#include "controller/mailbox.h"
#include "controller/node_desk.h"
#include "controller/turn_meter.h"
#include "controller/turn_watch.h"

namespace lockstep {

class CoreLoop {
 public:
  using Task = std::function<void()>;
  struct Outputs {
    std::function<void(std::vector<Task>)> to_io;                        // run in order on the I/O thread
    std::function<void(std::shared_ptr<const Engine::Batch>)> on_batch;  // for the I/O thread's readers
    std::function<void(std::vector<NodeDesk::Outgoing>)> on_messages;    // on the I/O thread
    std::function<void(NodeId, std::string node_name, Duration silence)> ask_fence_hook;  // on this thread: no blocking
    // On the I/O thread, when it changes: why only what ends work is taken, or nothing; "" = everything is.
    std::function<void(std::string trouble)> on_mode;
    std::function<void(const std::string& why)> on_deposed;  // on the I/O thread, once: another controller leads
  };

  CoreLoop(std::unique_ptr<Engine> engine, NodeDeskSettings desk, NodeDesk::Composer composer,
           const ClusterClock& clock, Outputs outputs, TurnWatch& watch);
  ~CoreLoop();

  // Before start() only: this thread's calls to the engine.
  Engine& engine() { return *engine_; }
  void start();
  void stop();  // commits what is queued, then ends

  // From any thread. `done` runs on the I/O thread.
  void submit(Command command, std::vector<Blob> blobs, std::function<void(Result<Answer>)> done);
  struct Submission {
    Command command;
    std::vector<Blob> blobs;
  };
  void submit_all(std::vector<Submission> all, std::function<void(std::vector<Result<Answer>>)> done);
  // From any thread; `reply` runs on this thread.
  void submit_direct(Command command, Engine::Reply reply);
  void post(Task task) { inbox_.post(std::move(task)); }
  void post_all(std::vector<Task> tasks) { inbox_.post_all(std::move(tasks)); }

  void connected(std::uint64_t link, std::string node_name, std::string certificate, std::string address);
  void disconnected(std::uint64_t link);
  void receive(std::uint64_t link, FromAgent message);
  void fenced(NodeId node, std::string proof);
  // From the I/O thread every kBeatEvery: renewals come the same way, so where beats are missing they could not come.
  void beat();

 private:
  void run();
  void watch_engine();
  void turn_ended();
  void timers(Instant now);
  void run_batch();
  void take_desk_commands();
  void flush();
  void run_aside(Task work, Task done);
  Instant next_timer() const;

  std::unique_ptr<Engine> engine_;
  NodeDesk desk_;
  const ClusterClock& clock_;
  Outputs outputs_;
  TurnWatch& watch_;
  TurnMeter meter_;
  Duration slowest_;          // of this turn's slowest command
  std::string slowest_what_;  // its fingerprint, where it was slow; else what kind of turn it is
  Mailbox<Task> inbox_;
  std::vector<Task> outbox_;  // for the I/O thread
  bool tick_in_hand_ = false;
  bool offset_in_hand_ = false;
  std::string told_trouble_;
  bool told_deposed_ = false;
  Instant tick_not_before_;
  bool stopping_ = false;
  std::thread thread_;
  std::thread aside_;  // encodes a snapshot now and then
};

}  // namespace lockstep
