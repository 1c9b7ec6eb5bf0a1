// AgentLogic: what an agent decides, without sockets, processes or clocks. Inputs are messages, shim events and time on
// the boot clock; outputs are messages and shim orders. The chaos simulator drives the same object.
//
// It never starts an attempt twice, keeps every result until it is acknowledged, and stops an attempt by itself when
// fence_after has passed on the boot clock since the sending of the last acknowledged renewal. Where the site has
// hooks, nothing of an attempt starts before its prolog has passed, and it counts as stopped only when its epilog has
// ended: each runs once, whatever becomes of the agent meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/hooks.h"
#include "agent/step_refusals.h"
#include "base/time.h"
#include "model/agent_messages.h"
#include "ports/shims.h"

namespace lockstep {

struct AgentSettings {
  Duration renew_every = seconds(3);  // until Welcome says otherwise
  std::uint16_t peer_port = 0;        // told in the hello
  // What may live here at once: each has a process of its own that owns the others, and room in the journal.
  std::size_t steps_max = 256;   // of one attempt
  std::size_t works_max = 4096;  // scripts, steps and tasks of all
  HookSettings hooks = {};
  std::string no_addresses = {};  // why its tasks get no addresses of their own; "" = they do, or it has no range
};

// What a shim's record tells of work here, whatever the journal knows of it.
struct FoundWork {
  WorkId key;
  std::uint32_t uid = 0;
  Duration fence_after, kill_wait;
  std::vector<std::uint32_t> ranks;
  bool launched = false;  // its tasks had been started
  bool lost = false;      // nobody could speak to its shim any more: it has been ended
};

// An attempt from its launch to its last words, with what it has of devices that it shares with others.
struct PartsHeld {
  JobId job;
  AttemptNo attempt = 0;
  bool known = true;  // false: nothing tells what it has, since its journal was lost
  std::vector<DevicePart> parts;
};

class AgentLogic {
 public:
  // facts.boot_id tells boots apart. journal: lines of this boot, oldest first; survivors: from Shims::recover(). The
  // journal is what must survive the agent's own end (not the machine's): attempts seen, unacknowledged reports.
  // found: what of it the shims themselves tell; a journal may be lost, or older than what runs.
  AgentLogic(AgentSettings settings, Node facts, const std::vector<std::string>& journal,
             const std::vector<WorkId>& survivors, Instant boot_now, const std::vector<FoundWork>& found = {});
  ~AgentLogic();

  void connected(Instant boot_now);
  void disconnected(Instant boot_now);
  void receive(const ToAgent& message, Instant boot_now);
  // In receive()'s place: this node cannot give the attempt what it was granted, and is at fault.
  void cannot_start(const LaunchAttempt& launch, const std::string& why, Instant boot_now);
  void shim_event(const ShimEvent& event, Instant boot_now);
  void tick(Instant boot_now);
  Instant next_timer() const;
  // What the node says of itself is something else now: told by a hello more, once the last one is answered.
  void set_facts(Node facts, Instant boot_now);
  // Nothing that computes on that GPU of the node goes on: attempts that have it end, and the controller hears why
  // (model/device_loss.h).
  void device_failed(std::uint32_t index, const std::string& why, Instant boot_now);
  void refuse_starts(std::string why);  // from now on nothing new starts here; "" = it may again

  // Outputs, drained in this order: journal lines (make durable), shim orders, messages.
  std::vector<std::string> take_journal();
  // The same knowledge in as few lines as possible: the shell may replace a long journal by these.
  std::vector<std::string> journal_snapshot() const;
  struct ShimOrder {
    enum class What : unsigned char { kStart, kSignal, kStop, kForget, kPause, kResume, kNotice } what = What::kStart;
    WorkId key;
    ShimStart start;                          // kStart
    std::int32_t signal = 0;                  // kSignal
    Shims::Reach reach = Shims::Reach::kAll;  // kSignal
    Duration kill_wait;                       // kStop; kNotice: until it is killed
    StopWhy why = StopWhy::kNothing;          // kStop, kNotice
    std::uint32_t number = 0;                 // kPause, kResume
  };
  std::vector<ShimOrder> take_orders();
  std::vector<FromAgent> take_messages();
  std::vector<StepRefusal> take_refusals();  // steps that were not, or could not be, started: for who attaches

  // When the last acknowledged renewal was sent: every fence counts from here.
  Instant renewed() const;
  std::set<std::uint64_t> jobs() const;                    // of which something is here
  std::set<std::pair<JobId, AttemptNo>> attempts() const;  // of which something is here, or still to come or to end
  std::vector<PartsHeld> parts() const;                    // of attempts that have some, or of which that is not known
  std::vector<WorkId> staging() const;                     // that copies at present
  // For the local broker: whose attempts run here.
  bool runs_for(std::uint32_t uid) const;
  std::vector<JobId> jobs_of(std::uint32_t uid) const;  // with any attempt here, also one that only waits for steps
  // For those who want to attach to a step: whose it is, and whether it is here, may still come, or never (again) will.
  enum class StepHere : unsigned char { kMayCome, kHere, kNever };
  struct StepFacts {
    StepHere here = StepHere::kMayCome;
    std::optional<std::uint32_t> uid;  // of the attempt, when it is known here
  };
  StepFacts step(JobId job, AttemptNo attempt, StepNo step) const;

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

}  // namespace lockstep
