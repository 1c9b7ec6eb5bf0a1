// Slurm's words for which jobs a request is about, shared by squeue, its steps, its JSON and scontrol. Which jobs match
// is the business of views/selectors; here the words are read, and a job becomes the lines that stand for it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/slurm/server/job_facts.h"
#include "views/selectors.h"

namespace lockstep::slurm {

// "12", "12_3", "12_[3-9]", "12+1".
struct JobName {
  JobTarget target;
  std::optional<std::uint16_t> group;
};
// ranges: how many index ranges may still be named (views/job_names.h); takes from it.
Result<JobName> parse_job_name(std::string_view text, std::size_t& ranges);
Result<std::vector<JobName>> parse_job_names(std::string_view text);
// A list of them, split at the commas outside brackets: "1_[2,4],7".
std::vector<std::string> split_job_names(std::string_view text);

class JobFilter {
 public:
  // Reads jobs, user, account, partition, qos, name, nodes, states, reservation, licenses (comma lists), me and array
  // (every waiting element a line of its own) from the query. Unknown users and jobs are errors, as in Slurm.
  static Result<JobFilter> parse(const ReadContext& context, const PageRequest& request);

 private:
  friend class JobCursor;
  // What is named of the array's waiting elements: null = all of them. wanted: whether they get a line each.
  struct Elements {
    bool each = false;
    std::optional<IntervalSet> named;
  };
  Elements elements_of(const Job& array) const;
  void add_groups(const JobLine& line, std::vector<JobLine>& out) const;  // a line for each component that is meant

  JobSelector selector_;
  std::map<JobId, std::set<std::optional<std::uint16_t>>> groups_named_;  // none = all of the job
  bool split_arrays_ = false, names_elements_ = false;
};

// So many waiting elements of one user are lines of their own; what is left of an array is one line, like "12_[9-40]".
inline constexpr std::uint64_t kElementLines = 100'000;

// A line of a job with long lists is as much work as so many short ones.
std::size_t lines_of_work(const JobLine& line);

// Goes through what a filter selects, some lines at a time. The jobs are those of the moment it was made, however the
// tables change meanwhile; which of them match, and what is said of them, is as of the call.
class JobCursor {
 public:
  JobCursor(const ReadContext& context, JobFilter filter);
  std::size_t jobs() const { return jobs_.size(); }  // that are looked at

  // Calls f(const JobLine&) for the next lines, by job id. False: those were the last. at_once: lines of one piece.
  template <class F>
  bool next(F&& f, std::size_t at_once = 64) {
    bool fresh = false;  // the lines are as of this call
    for (std::size_t looked = 0; is_more() && looked < at_once; ++looked) {
      if (line_at_ < lines_.size()) {
        looked += lines_of_work(lines_[line_at_]) - 1;
        f(fresh ? lines_[line_at_] : as_of_now(lines_[line_at_]));
        ++line_at_;
        continue;
      }
      const Job& job = *jobs_[at_];
      if (next_element_ == 0 && !matches(filter_.selector_, context_->tables, job)) {
        ++at_;
      } else if (!job.array && job.spec->groups.size() == 1) {
        const JobLine line = job_line(*context_, job);
        looked += lines_of_work(line) - 1;
        f(line);
        ++at_;
      } else {
        lines_.clear();
        line_at_ = 0;
        fresh = true;
        at_ += take_lines(job);
      }
    }
    return is_more();
  }

 private:
  bool is_more() const { return at_ < jobs_.size() || line_at_ < lines_.size(); }
  JobLine as_of_now(const JobLine& line) const;
  bool take_lines(const Job& job);       // into lines_; true: the job is done
  bool take_elements(const Job& array);  // the same

  const ReadContext* context_;
  JobFilter filter_;
  std::vector<Ref<Job>> jobs_;
  std::size_t at_ = 0;
  std::uint64_t next_element_ = 0;  // of the array at at_: the next one to list, plus 1. 0: it has not been begun
  JobFilter::Elements elements_;    // of that array
  std::vector<JobLine> lines_;      // of the job before at_, or of the array at it
  std::size_t line_at_ = 0;         // of these, the next one
  std::string rest_;                // what lines_ points to
  std::map<UserId, std::uint64_t> elements_listed_;  // of each user
};

// A query value, or "".
const std::string& query_of(const PageRequest& request, std::string_view name);
// Named in the query, if only with an empty list, which lets nothing through.
bool is_given(const PageRequest& request, std::string_view name);
bool flag_of(const PageRequest& request, std::string_view name);  // "me=1"
// ?columns=jobid,name,…: none twice, so that a row has at most as many cells as there are columns to know.
Result<std::vector<std::string>> columns_of(const PageRequest& request);
PageReply refusal(int status, std::string message);

}  // namespace lockstep::slurm
