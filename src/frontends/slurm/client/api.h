// Talking to the cluster: the few requests that sbatch, srun, salloc and scancel make, and reading the answers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/slurm/client/asking.h"
#include "frontends/slurm/client/scancel_ask.h"
#include "wire/codec.h"

namespace lockstep::slurm {

struct JobAnswer {
  Ref<Job> job;
  std::vector<Ref<Step>> steps;  // as far as the answer told
};

class Api {
 public:
  explicit Api(const ClientContext& context, Bearing bearing = Bearing::kPatient) : line_(context, bearing) {}

  // One request (see Asking). A reply of 400 and above is an Error.
  Result<ApiClient::Reply> call(std::string_view method, std::string_view target, std::string_view body = {},
                                std::optional<Duration> timeout = {}, bool is_named = false);

  Result<std::string> name();                              // the cluster's own
  Result<JobId> submit(const SubmitRequest& request);      // once, however often it has to be sent
  const std::string& warning() const { return warning_; }  // of the last submission; "" = none
  // With test_only: when and where it would start, as a sentence.
  Result<std::string> try_submit(const SubmitRequest& request);

  Result<Ref<Job>> job(JobId id) { return job_named(std::to_string(id.value)); }
  Result<Ref<Job>> job_named(const std::string& id);           // also "12_3"
  Result<std::vector<Ref<Job>>> jobs(std::string_view query);  // "state=pending&user=ann"
  Result<JobAnswer> job_with_steps(JobId id);
  // The step as far as the answer tells: it runs, or has ended. Made once, however often it has to be asked for; it
  // ends when nobody here has been attached to it, nor waits for it, for some time.
  Result<Ref<Step>> create_step(const StepRequest& request, bool ends_with_us = true);
  Result<Ref<Step>> step(JobId id, StepNo number);
  Result<std::vector<Ref<Node>>> nodes();
  Result<std::vector<ScancelAsk::KnownUser>> users();

  // One long poll: the job once it has its nodes, or has ended; without one when the time was up and it must be asked
  // again.
  enum class Until : unsigned char { kAllocated, kStarted, kEnded };
  Result<JobAnswer> wait_once(JobId id, Until until, bool presence);
  // Polls on, over lost connections for as long as patience lasts, until it holds.
  Result<JobAnswer> wait(JobId id, Until until, bool presence, Duration patience);

  Result<CancelledMany> cancel_many(const CancelMany& ask);
  // within: for who is about to leave, and does not wait for a silent controller.
  Result<void> cancel(std::string_view target, std::int32_t signal, SignalReach reach,
                      std::optional<Duration> within = {});
  Result<void> end(JobId id, ExitStatus exit, bool client_lost, std::optional<Duration> within = {});
  Result<void> signal_step(JobId id, StepNo number, std::int32_t signal, std::optional<Duration> within = {});

 private:
  Asking line_;
  std::string warning_;
};

std::string url_escaped(std::string_view text);

// --clusters names this cluster, or all.
Result<std::string> check_cluster_name(Api& cluster, std::string_view names);

}  // namespace lockstep::slurm
