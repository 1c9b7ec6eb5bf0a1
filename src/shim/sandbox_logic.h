// What the keeper of a sandbox decides (shim/sandbox_keeper.h): which container starts when, starts again, or is ended.
// No processes, no clock: times are handed in.
//
// Init containers and sidecars start in the order of the list: the next one when an init container has succeeded, or a
// sidecar has started and its startup probe has passed. Then all main ones start. The sandbox is over when no main
// container runs or will run again and everything else has ended: sidecars last, the one that came last first.
//
// Before a container is ended its last hook is run, in the time that it has to end; probes begin behind its first hook.
// When all end, the last hooks of all begin at once, and sidecars are told to end when it is their turn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/sandbox.h"
#include "wire/container_notes.h"

namespace lockstep {

class SandboxLogic {
 public:
  // grace: from SIGTERM to SIGKILL, of one container that is ended while others go on, and of the sidecars at the end.
  SandboxLogic(Sandbox sandbox, Duration grace, Instant now);

  struct Order {
    enum class What : unsigned char { kStart, kTerm, kKill, kProbe, kBegunHook, kEndingHook } what = What::kStart;
    std::size_t container = 0;
    std::size_t probe = 0;  // kProbe: answered by probed(); hooks: by hooked()
    friend bool operator==(const Order&, const Order&) = default;
  };

  // Its program runs: the image is there. Probes count from here.
  void began(std::size_t container, Instant now);
  // message: what it left to say. reason: "" = as its exit says.
  void ended(std::size_t container, ExitStatus exit, Instant now, std::string message = {}, std::string reason = {});
  void not_started(std::size_t container, std::string why, Instant now);
  // What it needs is not there: it is tried again and counts as no life.
  void cannot_yet(std::size_t container, std::string reason, std::string message, Instant now);
  // Until it is lifted no container starts, or the named one does not, and says why.
  struct Hold {
    std::string container, reason, message;  // container "" = each
  };
  void hold(std::vector<Hold> holds, Instant now);
  void fetches_image(std::size_t container);
  // fetch_time: 0 = it was on the node.
  // replaced: see ContainerNotes.
  void uses_image(std::size_t container, std::string digest, Duration fetch_time, std::string replaced = {});
  // One more, beside those that there are: it starts at once, runs once, and nothing waits for it.
  void add(SandboxContainer one, Instant now);
  // It is to be something else from now on: what runs is ended, whatever its rule, and started anew.
  void renew(std::size_t container, Instant now);
  // Everything ends now, and why is told of the sandbox as a whole.
  void evict(std::string why, Instant now);
  const std::string& why_evicted() const { return why_evicted_; }
  // The hook that was ordered last has come to its end.
  void hooked(std::size_t container, bool good, Instant now);
  // Of a life that is over nothing is heard any more. output: of one that failed, what it said.
  void probed(std::size_t container, std::size_t probe, bool passed, Instant now, std::string output = {});
  // Somebody has told every process to end: nothing starts any more.
  void told_to_end(Instant now);
  void tick(Instant now);

  std::vector<Order> take_orders();
  Instant next_timer() const;
  bool over() const;
  const std::vector<ContainerStatus>& containers() const { return statuses_; }
  // Of one that runs.
  const ContainerNotes& notes(std::size_t container) const { return lives_[container].notes; }
  std::uint32_t life(std::size_t container) const { return statuses_[container].restarts; }
  // Of the task: 0 if every main container ended well, else the status of the first one that did not; of an init
  // container that failed for good, that one's.
  ExitStatus result() const;

 private:
  struct ProbeState {
    Instant due = kNever;
    bool in_flight = false, passed = false;
    std::uint32_t failures = 0, successes = 0;  // in a row
  };
  struct Life {
    std::vector<ProbeState> probes;
    Instant start_at = kNever;  // waits until then
    Instant kill_at = kNever;
    Instant began;
    std::uint32_t quick_ends = 0;                                                   // in a row: each doubles the wait
    std::uint32_t fetches = 0;                                                      // that failed, in a row
    enum class Hook : unsigned char { kNone, kBegun, kEnding } hook = Hook::kNone;  // that runs
    bool term_sent = false;
    bool hook_done = false;  // its last hook, which ran before its turn to end
    bool is_wanted = false;  // its turn has come
    bool lives = false;      // it was ordered to start, and has not ended
    bool over = false;       // will not start again
    bool renews = false;     // it ends in order to be started anew
    ContainerNotes notes;
    // Failures of its probes in all lives, by kind, and when that was told last.
    struct Failures {
      std::uint32_t times = 0, ends = 0;
      Instant told;
    } failures[kProbeKinds];
  };
  const SandboxContainer& spec(std::size_t i) const { return sandbox_.containers[i]; }
  bool is_main(std::size_t i) const { return spec(i).kind == ContainerKind::kMain; }
  bool is_added(std::size_t i) const { return spec(i).kind == ContainerKind::kAdded; }
  bool may_start_again(std::size_t i, const ExitStatus& exit) const;
  bool has_started_up(std::size_t i) const;
  void let_next_start(Instant now);
  void start(std::size_t i, Instant now);
  void begin_probes(std::size_t i, Instant now);
  bool is_asked(std::size_t i, std::size_t p) const;
  void run_due_probes(std::size_t i, Instant now);
  void look_at_readiness(std::size_t i);
  void note_failure(std::size_t i, Probe::What what, bool is_last, std::string output, Instant now);
  void forget_failure(std::size_t i, Probe::What what);
  Duration wait_before(std::uint32_t quick_ends) const;
  bool has_last_hook(std::size_t i, Duration wait) const;
  void end_container(std::size_t i, Instant now, Duration wait);
  void end_container(std::size_t i, Instant now) { end_container(i, now, grace_); }
  void begin_end(Instant now);
  void begin_last_hook(std::size_t i, Instant now);
  void end_next_sidecars(Instant now);
  const Hold* hold_on(std::size_t i) const;
  void start_held(Instant now);
  void come_to_run(std::size_t i, Instant now);

  Sandbox sandbox_;
  Duration grace_;
  std::vector<Life> lives_;
  std::vector<ContainerStatus> statuses_;
  std::vector<Order> orders_;
  std::vector<Hold> holds_;
  Instant end_by_ = kNever;  // of a sandbox that was told to end
  bool ending_ = false;      // nothing starts any more
  bool failed_ = false;      // an init container failed for good
  std::string why_evicted_;
};

}  // namespace lockstep
