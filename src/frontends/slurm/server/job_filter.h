// Slurm's words for which jobs a request is about, shared by squeue, its steps, its JSON and scontrol. Which jobs match
// is the business of views/selectors; here the words are read, and a job becomes the lines that stand for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/slurm/server/job_facts.h"
#include "views/selectors.h"

namespace lockstep {

// "12", "12_3", "12_[3-9]", "12+1".
struct JobName {
  JobTarget target;
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
    for_each_job(context.tables, selector_, [&](const Ref<Job>& job) {
      if (!job->array && job->spec->groups.size() == 1)
        f(job_line(context, *job));
      else
        for (const JobLine& line : lines_of(context, *job)) f(line);
    });
  }

 private:
  std::vector<JobLine> lines_of(const ReadContext& context, const Job& job) const;

  JobSelector selector_;
  std::vector<JobName> names_;
  bool split_arrays_ = false;
};

// A query value, or "".
const std::string& query_of(const PageRequest& request, std::string_view name);
PageReply refusal(int status, std::string message);

}  // namespace lockstep
