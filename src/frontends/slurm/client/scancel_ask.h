// What one scancel was asked for: which jobs by id, which by their properties, and what to do to them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/records.h"
#include "wire/api.h"

namespace lockstep::slurm {

struct ScancelTarget {
  std::string job;             // "12", "12_3", "12_[3-9]"
  std::optional<StepNo> step;  // kBatchStep for ".batch"
  std::string step_text;
  Ref<Job> record;  // where it was looked up
};

// "12", "12_3", "12_[1-3,7]", "12.0", "12.batch", "12+0", and lists of them: "12,13_1".
Result<std::vector<ScancelTarget>> parse_scancel_targets(std::string_view text);

// A filter's names: "ann,bob". One that is given, and names nothing, holds a single empty name.
std::vector<std::string> scancel_names(std::string_view text);

struct ScancelAsk {
  std::vector<std::string> accounts, names, partitions, qos, reservations, users, wckeys, nodes;
  std::vector<UserId> user_ids;  // of users and --me
  std::vector<JobState> states;
  std::string clusters;
  int signal = 0;  // 0 = end
  bool signal_given = false;
  bool batch = false, full = false, interactive = false, quiet = false, verbose = false, me = false;

  Result<void> read_environment(const std::function<const char*(const char*)>& get_variable);  // SCANCEL_*
  Result<void> set_states(std::string_view text);
  // KILL is what ends a job anyway; a batch script alone is ended by it. Nobody has an empty name.
  Result<void> settle();
  struct KnownUser {
    std::string name;
    UserId id;
    std::uint32_t uid = 0;
  };
  Result<void> choose_users(const std::vector<KnownUser>& known, std::uint32_t own_uid);
  bool has_filter() const;
  // A filter that names nothing lets no job through.
  bool excludes_all() const;
  // What is sent a signal, or asked about, must be there; what is to end may have ended.
  bool must_exist() const { return signal_given || batch || interactive; }
  SignalReach reach() const;
  // All of it as one request; the cluster looks up what matches. Targets are jobs, not steps.
  CancelMany request(const std::vector<ScancelTarget>& targets, std::uint32_t own_uid) const;
  bool matches(const Job& job, const std::vector<NodeId>& on_nodes) const;
  // The targets among these jobs; without targets, all that match.
  std::vector<ScancelTarget> choose(const std::vector<Ref<Job>>& jobs, const std::vector<ScancelTarget>& targets,
                                    const std::vector<NodeId>& on_nodes) const;
};

}  // namespace lockstep::slurm
