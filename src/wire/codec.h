// JSON <-> model. The one home of the JSON library: callers hand over and get text and model values only.
// Decoders take bytes from strangers: any text gives a valid value or an Error whose field is the offending path.
// Unknown fields are ignored; records keep being readable by later versions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/agent_messages.h"
#include "model/change.h"
#include "model/command.h"
#include "model/spec_pool.h"
#include "model/visible.h"

namespace lockstep {

class LongValues;

// Log entries and snapshot chunks: changes and events of one batch.
struct EntryBody {
  std::vector<Change> changes;
  std::vector<Event> events;
  Instant at;
};
std::string encode_entry(const EntryBody& body);
// pool: jobs of this entry share their specs with those of every entry read with it. apart: where long values lie.
Result<EntryBody> decode_entry(std::string_view text, SpecPool* pool = nullptr, LongValues* apart = nullptr);

// Link messages.
std::string encode(const FromAgent& message);
std::string encode(const ToAgent& message);
Result<FromAgent> decode_from_agent(std::string_view text);
Result<ToAgent> decode_to_agent(std::string_view text);

// Records as the API shows them (and as the log stores them).
std::string encode_record(const VisibleRecord& record);
std::string encode_whole(const Record& record);  // of somebody who has all of it: not for answers
Result<Record> decode_record(Kind kind, std::string_view text);

// Requests of the API.
struct SubmitRequest {
  JobSpec spec;
  std::string script;       // its text; stored as a blob by the controller
  std::string environment;  // NUL-separated NAME=value; likewise
  std::optional<ArrayAsk> array;
  std::optional<StepSpec> first_step;
  std::string first_step_environment;
  bool test_only = false;
};
std::string encode(const SubmitRequest& request);
Result<SubmitRequest> decode_submit(std::string_view text);
struct StepRequest {
  JobId job;
  StepSpec spec;
  std::string environment;
};
std::string encode(const StepRequest& request);
Result<StepRequest> decode_step_request(std::string_view text);
std::string encode(const UpdateJob& update);
Result<UpdateJob> decode_update_job(std::string_view text);
std::string encode(const UpdateNode& update);
Result<UpdateNode> decode_update_node(std::string_view text);
std::string encode_partition(const Partition& partition);
Result<Partition> decode_partition(std::string_view text);
Result<Account> decode_account(std::string_view text);
Result<Association> decode_association(std::string_view text);
Result<Qos> decode_qos(std::string_view text);
Result<Licence> decode_licence(std::string_view text);
Result<Reservation> decode_reservation(std::string_view text);
Result<Policy> decode_policy(std::string_view text);
Result<Topology> decode_topology(std::string_view text);
Result<NodeClass> decode_node_class(std::string_view text);
Result<HealthCheck> decode_health_check(std::string_view text);

// {"error":{"code":"not_found","message":"…","field":"…"}}
std::string encode_error(const Error& error);
// The field of what a node's agent answers when the controller went away over a request, so that it is known by more
// than its words.
inline constexpr const char* kControllerLost = "controller_lost";
Error decode_error(std::string_view text, int http_status);
int http_status_of(Errc code);

// Names of states and the like in JSON: lower_snake ("pending", "completing").
std::string_view text_of(JobState state);
std::string_view text_of(StepState state);
std::string_view text_of(TaskState state);
std::string_view text_of(ContainerState state);
std::string_view text_of(NodeLink link);
std::string_view text_of(HealthVerdict verdict);
std::string_view text_of(Hold hold);
std::string_view text_of(Wait wait);
std::string_view text_of(Kind kind);

}  // namespace lockstep
