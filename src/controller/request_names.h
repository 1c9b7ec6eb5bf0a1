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
#include "model/records.h"

namespace lockstep {

struct Job;

class RequestNames {
 public:
  static constexpr Duration kKept = minutes(10);
  static constexpr std::size_t kEachMax = 10'000;  // jobs of one user, and as many steps: then the oldest is forgotten

  // A job, or a step, that is new to us.
  void note(const Job& job, Instant now);
  void note(const Step& step, Instant now);
  // 0: no such request is known.
  JobId find(UserId user, std::string_view name) const;
  // Whether the name is that of a job which came of another body, as far as its record says.
  bool is_of_another(UserId user, std::string_view name, std::string_view digest) const;
  std::optional<StepNo> find_step(UserId user, JobId job, std::string_view name) const;
  std::size_t of(UserId user) const;  // how many jobs are kept

 private:
  struct Made {
    JobId job;
    StepNo step = 0;
    std::string body = {};  // digest of what was submitted; "" = not known
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
// A job's record keeps with the name of its request what the request held: a few letters of every bit of the body, the
// same in each controller that reads them. They tell mistakes apart, not attacks: a user's names are the user's own.
std::string body_digest(std::string_view body);
std::string name_with_body(std::string_view name, std::string_view digest);
// What a client hears whose name is none, or is that of another submission.
Error no_request_name();
Error name_of_another(JobId job);

}  // namespace lockstep
