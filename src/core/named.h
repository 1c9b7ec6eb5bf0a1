// Named: what unfinished jobs name, so that whether an account, a QOS, a partition, a licence, an association or a
// reservation may go is known without a look at every job.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/id_map.h"
#include "model/ids.h"

namespace lockstep {

struct Job;

class Named {
 public:
  enum class Noun : unsigned char { kAccount, kQos, kPartition, kLicence };

  // One job has changed; null = is not there.
  void index(const Job* before, const Job* after);

  // The first unfinished job that names it; 0 = none does. Partition "": the default one, by naming none.
  JobId first(Noun noun, const std::string& name) const;
  // The first one of a user in the account whose first partition (""= none is named) passes the test.
  JobId first_in(const std::string& account,
                 const std::function<bool(UserId user, const std::string& partition)>& test) const;

  struct Reserved {
    std::set<JobId> waiting, running;  // the latter have an allocation
    friend bool operator==(const Reserved&, const Reserved&) = default;
  };
  const Reserved& in_reservation(const std::string& name) const;

  friend bool operator==(const Named&, const Named&) = default;

 private:
  template <class F>
  void each(const Job& job, F&& change);
  void change_reserved(const Job& job, bool there);

  std::map<std::pair<Noun, std::string>, IdSet<JobId>> jobs_;
  std::map<std::tuple<std::string, UserId, std::string>, IdSet<JobId>> standing_;  // account, user, first partition
  std::map<std::string, Reserved> reserved_;
};

}  // namespace lockstep
