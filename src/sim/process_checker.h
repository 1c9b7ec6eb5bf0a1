// ProcessChecker: the truth about processes in the simulated world, and the promises about them: no device and no core
// is used by two attempts at once, nothing runs twice, nothing lives on after its attempt was declared over.
#pragma once

#include <map>
#include <set>
#include <tuple>

#include "ports/shims.h"
#include "sim/verdict.h"

namespace lockstep::sim {

class ProcessChecker {
 public:
  explicit ProcessChecker(Verdict& verdict) : verdict_(verdict) {}

  enum class How : unsigned char { kItself, kSignal, kMachine };
  struct Using {
    DeviceSet devices;
    CoreSet cores;
  };
  void started(std::size_t node, const WorkId& key, std::uint32_t rank, const Using& with, Instant now);
  void ended(std::size_t node, const WorkId& key, std::uint32_t rank, const ExitStatus& exit, How how, Instant now);
  // Its processes stop where they are, or go on: meanwhile others may use what it has.
  void paused(std::size_t node, const WorkId& key, std::uint32_t rank, bool yes);
  // Of a promise that somebody else looks after.
  void complain(std::string words) { verdict_.fail(std::move(words)); }
  void forgotten_alive(std::size_t node, const WorkId& key);

  // Processes of the attempt that live on the node.
  std::size_t live(std::size_t node, JobId job, AttemptNo attempt) const;

  // Whether a process of the job ever ran.
  bool ran(JobId job) const {
    const auto at = lives_.lower_bound({{.job = job, .attempt = 0, .part = {}}, 0});
    return at != lives_.end() && at->first.first.job == job;
  }

  // Those of them that are not stopped.
  std::size_t running(std::size_t node, JobId job, AttemptNo attempt) const;

  struct End {
    std::size_t node = 0;
    ExitStatus exit;
    How how = How::kItself;
    Instant at;
  };
  // How the process ended; null if it never did, or never ran.
  const End* end_of(const WorkId& key, std::uint32_t rank) const;

  static std::string name(const WorkId& key);

 private:
  using Attempt = std::pair<JobId, AttemptNo>;
  struct Life {
    std::size_t node = 0;
    Instant started;
    bool live = true, paused = false;
    Using with;
    End end;
  };
  using Users = std::map<std::pair<std::size_t, std::uint32_t>, std::map<Attempt, std::size_t>>;
  void use(std::size_t node, const Attempt& attempt, const Using& with);
  void use(Users& users, const char* what, std::size_t node, std::uint32_t number, const Attempt& attempt);
  void leave(std::size_t node, const Attempt& attempt, const Using& with);

  Verdict& verdict_;
  std::map<std::pair<WorkId, std::uint32_t>, Life> lives_;
  std::map<std::pair<std::size_t, Attempt>, std::size_t> live_;  // processes
  Users users_, core_users_;                                     // of a device, of a core
};

}  // namespace lockstep::sim
