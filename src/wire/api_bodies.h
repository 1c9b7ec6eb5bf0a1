// The small bodies of the API that are no records: what is posted to jobs, steps, tokens and join, and what answers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/change.h"
#include "model/command.h"
#include "model/history.h"
#include "model/plan.h"

namespace lockstep {

std::string json_quote(std::string_view text);

// The elements of a JSON array as they are written, "[{…},{…}]" -> {"{…}","{…}"}. Only brackets and strings are looked
// at; each element is checked when it is decoded.
Result<std::vector<std::string_view>> split_json_array(std::string_view text, std::size_t count_max);

// An empty body is read as one with every default.
struct CancelBody {
  std::int32_t signal = 0;
  CancelJob::Reach reach = CancelJob::Reach::kSteps;
};
Result<CancelBody> decode_cancel_body(std::string_view text);

struct HoldBody {
  bool by_admin = false;
};
Result<HoldBody> decode_hold_body(std::string_view text);

struct RequeueBody {
  bool hold = false;
};
Result<RequeueBody> decode_requeue_body(std::string_view text);

struct EndBody {
  std::int32_t code = 0, signal = 0;
  bool client_lost = false;
};
Result<EndBody> decode_end_body(std::string_view text);

struct SignalBody {
  std::int32_t signal = 0;
};
Result<SignalBody> decode_signal_body(std::string_view text);

struct TokenBody {
  JoinToken::Role role = JoinToken::Role::kCompute;
  std::string realm, node;
  std::int64_t ttl_s = 3600;
};
Result<TokenBody> decode_token_body(std::string_view text);

struct JoinBody {
  std::string token, node, csr;
};
std::string encode(const JoinBody& body);
Result<JoinBody> decode_join_body(std::string_view text);

struct JoinAnswer {
  std::string certificate, ca, role;  // PEM, PEM, "compute" or "broker:REALM"
};
std::string encode(const JoinAnswer& answer);
Result<JoinAnswer> decode_join_answer(std::string_view text);

// What a controller's kOpenStream asks an agent for: the shim of this step on its node.
struct StepTicket {
  JobId job;
  AttemptNo attempt = 0;
  StepNo step = 0;
};
std::string encode(const StepTicket& ticket);
Result<StepTicket> decode_step_ticket(std::string_view text);

struct PingAnswer {
  std::string cluster, version;
  Seq seq = 0;
  bool read_only = false;
  std::int32_t pid = 0;
};
std::string encode(const PingAnswer& answer);
Result<PingAnswer> decode_ping_answer(std::string_view text);

std::string encode(const PlanNote& note);
std::string encode(const JobRow& row);
Result<JobRow> decode_job_row(std::string_view text);
// One line of a watch: {"seq":7,"kind":"job","removed":false,"record":{…}}.
std::string encode_watch_line(const Change& change);

}  // namespace lockstep
