// The rest of the API's bodies (docs/api.md): small requests, and answers as both sides see them. An empty request body
// stands for {}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/change.h"
#include "model/command.h"
#include "model/history.h"
#include "model/plan.h"
#include "wire/codec.h"

namespace lockstep {

// --- requests; what the path names (target, job, step) is not in the body and left unset ---

// POST /v1/jobs: one request, or a list of them; each is refused on its own.
struct SubmitBody {
  std::vector<Result<SubmitRequest>> requests;
  bool is_list = false;  // answer with a list
};
Result<SubmitBody> decode_submit_body(std::string_view text);
std::string encode(const std::vector<SubmitRequest>& requests);

std::string encode(const CancelJob& cancel);  // {"signal":0,"reach":"steps"}
Result<CancelJob> decode_cancel(std::string_view text);

// POST /v1/jobs/cancel: what cancel says, for every job that is among the targets (if any are given) and passes every
// filter that is given. One of them must be.
struct CancelMany {
  std::vector<std::string> targets;                    // "12", "12_3", "12_[3-9]"
  std::vector<std::string> users;                      // login names or uids
  std::vector<std::string> states, partitions, names;  // "pending", …
  std::vector<std::string> accounts, qos, reservations, wckeys;
  std::string nodes;  // host list
  std::int32_t signal = 0;
  SignalReach reach = SignalReach::kSteps;
};
std::string encode(const CancelMany& ask);  // {"targets":["12"],"users":["ann"],"signal":15}
Result<CancelMany> decode_cancel_many(std::string_view text);
// Every job is cancelled or refused on its own.
struct CancelledMany {
  struct Failure {
    std::string target;
    Error error;
  };
  std::uint64_t done = 0;
  std::vector<Failure> failed;
};
std::string encode(const CancelledMany& answer);  // {"done":2,"failed":[{"target":"12","error":{…}}]}
Result<CancelledMany> decode_cancelled_many(std::string_view text);

std::string encode(const HoldJob& hold);  // {"by_admin":true}
Result<HoldJob> decode_hold(std::string_view text);
std::string encode(const RequeueJob& requeue);  // {"hold":true}
Result<RequeueJob> decode_requeue(std::string_view text);
std::string encode(const EndJob& end);  // {"code":1,"signal":0,"client_lost":false,"ago_us":0}
Result<EndJob> decode_end(std::string_view text);
std::string encode(const SignalStep& signal);  // {"signal":15}
Result<SignalStep> decode_signal_step(std::string_view text);
Result<User> decode_user(std::string_view text);

struct TokenRequest {
  JoinToken::Role role = JoinToken::Role::kCompute;
  std::string realm;
  std::string node;       // host list of the names it may give
  bool any_name = false;  // instead: any that nobody has
  std::int64_t ttl_s = 3600;
  std::uint32_t uses = 1;
  bool replace = false, trust_administrators = false;  // as in JoinToken
  std::string address, task_range;                     // likewise
};
std::string encode(const TokenRequest& request);
Result<TokenRequest> decode_token_request(std::string_view text);
std::string encode_token_answer(std::string_view token);  // {"token":"ID.SECRET.CAHASH"}

struct JoinRequest {
  std::string token, node, csr;  // csr: PEM
};
std::string encode(const JoinRequest& request);
Result<JoinRequest> decode_join_request(std::string_view text);
// What a node's certificate may ask for besides a link: its successor.
struct RenewRequest {
  std::string csr;  // PEM
};
std::string encode(const RenewRequest& request);
Result<RenewRequest> decode_renew_request(std::string_view text);
struct JoinAnswer {
  std::string certificate, ca;  // PEM
  JoinToken::Role role = JoinToken::Role::kCompute;
  std::string address, task_range;  // that the node was given; "" = none
};
std::string encode(const JoinAnswer& answer);
Result<JoinAnswer> decode_join_answer(std::string_view text);

// --- answers ---

struct Ping {
  std::string cluster, version;
  Seq seq = 0;
  bool read_only = false;
  std::int32_t pid = 0;
  std::int64_t wall_us = 0;                          // the clock of the controller's machine
  std::uint32_t protocol_min = 0, protocol_max = 0;  // of agents' links
  // Through a node's agent: how the controller sees this node. "" = asked otherwise.
  std::string node, node_state, node_reason, gpu_type;
  std::uint32_t cores = 0, gpus = 0;
  std::int64_t memory_mb = 0;
};
std::string encode(const Ping& ping);
Result<Ping> decode_ping(std::string_view text);

// {"job_id":12}; with what the submitter ought to know of it {"job_id":12,"warning":"…"}
std::string encode_submitted(JobId job, std::string warning = {});
std::string encode_submitted(const std::vector<Result<JobId>>& jobs);  // {"jobs":[{"job_id":12},{"error":…}]}
struct Submitted {
  JobId job;
  std::string warning;  // "" = none
};
Result<Submitted> decode_submitted(std::string_view text);
Result<std::vector<Result<JobId>>> decode_submitted_list(std::string_view text);

std::string encode_step_created(StepNo step);  // {"step":0}
Result<StepNo> decode_step_created(std::string_view text);

// ?wait=started, of a job (its first step, if it has one) or of a step: {"job":…,"step":…}
struct Started {
  Ref<Job> job;
  Ref<Step> step;  // null = none
};
struct VisibleStarted {
  Visible<Job> job;
  Visible<Step> step;
};
std::string encode(const VisibleStarted& started);
Result<Started> decode_started(std::string_view text);

// GET /v1/jobs/ID
struct JobDetail {
  Ref<Job> job;
  std::vector<Ref<Step>> steps;
  std::vector<Ref<Task>> tasks;
  PlanNote note;
};
struct VisibleDetail {
  Visible<Job> job;
  std::vector<Visible<Step>> steps;
  std::vector<Visible<Task>> tasks;
  PlanNote note;
};
std::string encode(const VisibleDetail& detail);
Result<JobDetail> decode_job_detail(std::string_view text);

// {"jobs":[…]}, {"nodes":[…]}, {"steps":[…]} …: records of one kind. The reader says which.
std::string encode_records(Kind kind, const std::vector<VisibleRecord>& records);
Result<std::vector<Record>> decode_records(Kind kind, std::string_view text);

std::string encode(const std::vector<PlanNote>& notes);  // {"notes":[…]}
Result<std::vector<PlanNote>> decode_plan_notes(std::string_view text);

std::string encode(const std::vector<JobRow>& rows);  // {"rows":[…]}
Result<std::vector<JobRow>> decode_job_rows(std::string_view text);

// One line of GET /v1/watch: {"job":{…},"removed":true}
std::string encode_change(Seq seq, const VisibleRecord& record, bool removed);
Result<Change> decode_change(std::string_view text);

// "pending" -> kPending; nothing for an unknown word.
std::optional<JobState> job_state_of(std::string_view text);

}  // namespace lockstep
