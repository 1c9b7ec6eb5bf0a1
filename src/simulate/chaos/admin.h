// ChaosAdmin: accounts, associations, QOS and licences with limits, set up before the jobs and changed while they run;
// reservations that come, overlap and go. Dresses jobs with what they name of it.
#pragma once

#include <optional>

#include "model/command.h"

namespace lockstep::sim {

struct World;

class ChaosAdmin {
 public:
  explicit ChaosAdmin(World& world) : world_(world) {}

  // The commands that set it up, one after the other; nullopt: that is all.
  std::optional<CommandBody> setup(int step);
  // Some change of it; nullopt: nothing to do now.
  std::optional<CommandBody> change();
  // What a job names.
  void dress(JobSpec& spec);
  // What would keep the cluster from coming to rest.
  std::vector<CommandBody> settle() const;

 private:
  CommandBody new_reservation();
  template <class Put, class Records>
  std::optional<CommandBody> limit_anew(const Records& records, Kind kind);
  Limits random_limits(Kind of);

  World& world_;
  std::uint64_t reservations_ = 0;
};

}  // namespace lockstep::sim
