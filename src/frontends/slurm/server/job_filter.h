// Which jobs a request is about: the filters that squeue, its steps, its JSON and scontrol share.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/slurm/server/job_facts.h"

namespace lockstep {

// "12", "12_3", "12_[3-9]", "12+1".
struct JobName {
  JobId job;
  IntervalSet elements;  // of an array; empty = all of it
  std::optional<std::uint16_t> group;
};
Result<JobName> parse_job_name(std::string_view text);
// A list of them, split at the commas outside brackets: "1_[2,4],7".
std::vector<std::string> split_job_names(std::string_view text);

class JobFilter {
 public:
  // Reads jobs, user, account, partition, qos, name, nodes, states, reservation, licenses (comma lists), me and array
  // (every waiting element a line of its own) from the query. Unknown users and jobs are errors, as in Slurm.
  static Result<JobFilter> parse(const ReadContext& context, const PageRequest& request);

  // Calls f(JobLine) for everything that matches, by job id.
  template <class F>
  void for_each(const ReadContext& context, F&& f) const {
    const auto visit = [&](const Job& job) {
      if (!matches(job))
        return;
      if (!job.array && job.spec->groups.size() == 1)
        f(job_line(context, job));
      else
        for (const JobLine& line : lines_of(context, job)) f(line);
    };
    if (direct_)
      for (const JobName& name : names_) visit(*context.tables.job(name.job));
    else
      for (const auto& [id, job] : context.tables.jobs) visit(*job);
  }

 private:
  bool matches(const Job& job) const;
  std::vector<JobLine> lines_of(const ReadContext& context, const Job& job) const;
  bool runs_on(const Job& job) const;

  std::vector<JobName> names_;
  bool direct_ = false;  // every name is a plain job that exists: no need to look at all the others
  std::optional<std::set<UserId>> users_;
  std::set<std::string, std::less<>> accounts_, partitions_, qos_, job_names_, reservations_, licenses_;
  std::set<NodeId> nodes_;
  bool by_node_ = false;
  StateSet states_ = StateSet::unfinished();
  bool split_arrays_ = false;
  const Tables* tables_ = nullptr;
};

// A query value, or "".
const std::string& query_of(const PageRequest& request, std::string_view name);
PageReply refusal(int status, std::string message);

}  // namespace lockstep
