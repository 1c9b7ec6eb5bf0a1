// RequestNames: which job a submission made that its client named, and which step, for as long as the client may ask
// again. It follows from the records, so a controller that starts again knows what the last one committed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job.h"
#include "model/records.h"

namespace lockstep {

class RequestNames {
 public:
  static constexpr Duration kKept = minutes(10);
  static constexpr std::size_t kEachMax = 10'000;  // jobs of one user, and as many steps: then the oldest is forgotten

  // A job, or a step, that is new to us.
  void note(const Job& job, Instant now);
  void note(const Step& step, Instant now);
  // 0: no such request is known.
  JobId find(UserId user, std::string_view name) const;
  std::optional<StepNo> find_step(UserId user, JobId job, std::string_view name) const;
  std::size_t of(UserId user) const;  // how many jobs are kept

 private:
  struct Made {
    JobId job;
    StepNo step = 0;
  };
  struct OfUser {
    std::map<std::string, Made, std::less<>> made;
    std::deque<std::pair<Instant, std::string>> order;  // as they were submitted
  };
  using Users = std::map<UserId, OfUser>;
  static void note(Users& users, UserId user, const std::string& name, Made made, Instant at, Instant now);
  static const Made* find(const Users& users, UserId user, std::string_view name);

  Users jobs_, steps_;
};

// What a named request is about, among all of a user: a name belongs to one job's steps, or to one place of a list.
std::string name_in_job(JobId job, std::string_view name);
std::string name_in_list(std::string_view name, std::size_t place);
// What a client hears whose name is none.
Error no_request_name();

}  // namespace lockstep
