// ControllerHost: the simulated controller machine: the real Engine, NodeDesk and actors, wired as lockstepd wires
// them, and the reader that feeds history. It can die at any commit.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "controller/engine.h"
#include "controller/node_desk.h"
#include "sim/network.h"
#include "simulate/chaos/actor_host.h"
#include "simulate/chaos/resident.h"

namespace lockstep::sim {

struct World;

class ControllerHost {
 public:
  explicit ControllerHost(World& world);
  // Before the first start.
  void take_in(Resident& resident);

  void start();
  void kill();
  // Stands still for a while: the whole process, or only its I/O thread, through which agents and clients are heard and
  // answered, or only the core's. What arrives waits, in order.
  enum class Stall : unsigned char { kAll, kIo, kCore };
  void stall(Stall what, Duration time);
  bool up() const { return engine_ != nullptr; }
  const ClusterState& state() const { return engine_->state(); }
  const Engine& engine() const { return *engine_; }

  // A request over the API; the reply may never come. False if nobody listens.
  bool call(Command command, Engine::Reply reply, std::vector<Blob> blobs = {});

  void link_connected(LinkId link, std::size_t node);
  void link_closed(LinkId link);
  void received(LinkId link, const FromAgent& message);

  bool history_pauses = false;  // accounting is away: the log must wait for it
  double stray_plans = 0;       // plans that know nothing of what is taken
  std::uint64_t batches() const { return batches_; }
  std::uint64_t starts() const { return starts_; }
  std::string note_of(JobId job) const;
  // An actor stands still for a while, begins anew, or gets a twin.
  void disturb_actor(Duration most);
  void calm_actors();
  Instant io_stalled_until() const { return io_until_; }

 private:
  void host(ActorHost::Make make, std::function<void(const Actor::Turn&, bool up_to_date)> on_turn = {});
  void wake();
  void beat();
  // When a stalled part goes on; false: it runs, and nothing was put off.
  bool put_off(Stall by, std::function<void()> task);  // kAll: what both threads have a part in
  Instant heard_again() const { return std::max(io_until_, core_until_); }
  void pump();
  void await_log();
  void log_ended();
  bool batch_ended();
  void exchange();
  void send(LinkId link, ToAgent message);
  void planned(const Actor::Turn& turn, bool up_to_date);
  void stray_plan();
  void check_loss(const Node& node);
  void check_answered(const Job& job);
  void check_packing_law(const Packing& proposed);
  void published(const Engine::Batch& batch);
  void show(std::uint64_t index, std::span<const Change> changes);
  void show_unseen();
  void feed_history();
  void load_history_tail();
  void schedule(Instant when);

  World& world_;
  Resident* resident_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<NodeDesk> desk_;
  Rng dice_;  // of late appends: a run without any stays what it was
  bool may_be_late_ = false;
  std::uint64_t life_ = 0;
  bool awake_ = false;
  std::vector<std::unique_ptr<ActorHost>> actors_;  // the planner first
  Instant alarm_ = kNever;
  std::set<std::string> answered_;  // nodes that said hello in this life
  Instant began_;                   // this life
  Instant io_until_, core_until_;   // stalled up to here
  Standstill stills_[3];            // by Stall
  std::deque<std::pair<std::uint64_t, std::vector<Change>>> history_queue_;
  std::map<JobId, Wait> waits_;
  std::uint64_t last_shown_ = 0;  // to the checkers: log index
  Seq last_seq_ = 0, checked_seq_ = 0;
  std::uint64_t batches_ = 0, starts_ = 0, checks_ = 0, replicas_made_ = 0;
};

}  // namespace lockstep::sim
