#include "frontends/slurm/client/api.h"

#include <time.h>

#include "base/text.h"

namespace lockstep {

namespace {

// Skips one JSON value; npos when the text ends before it does.
std::size_t skip_value(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\')
          ++at;
      if (at >= text.size())
        return std::string_view::npos;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0)
        return at;
      --depth;
      if (depth == 0)
        return at + 1;
    } else if (c == ',' && depth == 0) {
      return at;
    }
    ++at;
  }
  return depth == 0 ? at : std::string_view::npos;
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
  return at;
}

template <class T>
Result<Ref<T>> record_of(Kind kind, std::string_view text) {
  const auto record = decode_record(kind, text);
  if (!record)
    return record.error();
  if (const auto* value = std::get_if<Ref<T>>(&*record))
    return *value;
  return Error{Errc::kInternal, "the cluster answered with another kind of record", {}};
}

template <class T>
Result<std::vector<Ref<T>>> records_of(Kind kind, std::string_view body, std::string_view member) {
  std::vector<Ref<T>> out;
  const auto list = json_member(body, member);
  if (!list)
    return Error{Errc::kInternal, format("the cluster's answer has no \"{}\"", member), {}};
  for (const auto text : json_elements(*list)) out.push_back(TRY(record_of<T>(kind, text)));
  return out;
}

Result<JobAnswer> job_answer(std::string_view body) {
  const auto text = json_member(body, "job");
  if (!text)
    return Error{Errc::kInternal, "the cluster's answer has no \"job\"", {}};
  JobAnswer out{TRY(record_of<Job>(Kind::kJob, *text)), {}};
  if (const auto list = json_member(body, "steps"))
    for (const auto step : json_elements(*list)) out.steps.push_back(TRY(record_of<Step>(Kind::kStep, step)));
  else if (const auto one = json_member(body, "step"); one && one->starts_with('{'))
    out.steps.push_back(TRY(record_of<Step>(Kind::kStep, *one)));
  return out;
}

std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    return text.substr(1, text.size() - 2);
  return text;
}

bool connection_lost(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kIo || error.code == Errc::kTimeout;
}

}  // namespace

std::optional<std::string_view> json_member(std::string_view object, std::string_view name) {
  std::size_t at = skip_blanks(object, 0);
  if (at >= object.size() || object[at] != '{')
    return std::nullopt;
  ++at;
  for (;;) {
    at = skip_blanks(object, at);
    if (at >= object.size() || object[at] != '"')
      return std::nullopt;
    const std::size_t key_start = at + 1;
    std::size_t key_end = key_start;
    while (key_end < object.size() && object[key_end] != '"') key_end += object[key_end] == '\\' ? 2 : 1;
    if (key_end >= object.size())
      return std::nullopt;
    at = skip_blanks(object, key_end + 1);
    if (at >= object.size() || object[at] != ':')
      return std::nullopt;
    at = skip_blanks(object, at + 1);
    const std::size_t end = skip_value(object, at);
    if (end == std::string_view::npos)
      return std::nullopt;
    if (object.substr(key_start, key_end - key_start) == name)
      return trim(object.substr(at, end - at));
    at = skip_blanks(object, end);
    if (at >= object.size() || object[at] != ',')
      return std::nullopt;
    ++at;
  }
}

std::vector<std::string_view> json_elements(std::string_view array) {
  std::vector<std::string_view> out;
  std::size_t at = skip_blanks(array, 0);
  if (at >= array.size() || array[at] != '[')
    return out;
  at = skip_blanks(array, at + 1);
  while (at < array.size() && array[at] != ']') {
    const std::size_t end = skip_value(array, at);
    if (end == std::string_view::npos || end == at)
      return out;
    out.push_back(trim(array.substr(at, end - at)));
    at = skip_blanks(array, end);
    if (at >= array.size() || array[at] != ',')
      return out;
    at = skip_blanks(array, at + 1);
  }
  return out;
}

std::string url_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~' || c == ',';
    if (plain)
      out += c;
    else
      out += format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return out;
}

void sleep_for(Duration time) {
  ::timespec left{time.us / 1'000'000, (time.us % 1'000'000) * 1000};
  ::nanosleep(&left, nullptr);
}

Result<ApiClient::Reply> Api::call(std::string_view method, std::string_view target, std::string_view body,
                                   Duration timeout) {
  if (!client_)
    client_ = TRY(context_.connect());
  auto reply = client_->call(method, target, body, timeout);
  if (!reply) {
    client_.reset();
    return reply;
  }
  if (reply->status >= 400)
    return decode_error(reply->body, reply->status);
  return reply;
}

Result<std::string> Api::name() {
  const auto reply = TRY(call("GET", "/v1/ping"));
  const auto text = json_member(reply.body, "cluster");
  if (!text)
    return Error{Errc::kInternal, "the cluster did not say its name", {}};
  return std::string(unquoted(*text));
}

Result<JobId> Api::submit(const SubmitRequest& request) {
  const auto reply = TRY(call("POST", "/v1/jobs", encode(request)));
  const auto text = json_member(reply.body, "job_id");
  const auto id = text ? parse_uint(*text) : std::nullopt;
  if (!id || *id == 0)
    return Error{Errc::kInternal, "the cluster did not answer with a job id", {}};
  return JobId(*id);
}

Result<std::string> Api::try_submit(const SubmitRequest& request) {
  const auto reply = TRY(call("POST", "/v1/jobs", encode(request)));
  const auto text = json_member(reply.body, "message");
  return text ? std::string(unquoted(*text)) : std::string();
}

Result<Ref<Job>> Api::job_named(const std::string& id) {
  const auto reply = TRY(call("GET", "/v1/jobs/" + id));
  const auto text = json_member(reply.body, "job");
  return record_of<Job>(Kind::kJob, text ? *text : std::string_view(reply.body));
}

Result<std::vector<Ref<Job>>> Api::jobs(std::string_view query) {
  const auto reply = TRY(call("GET", query.empty() ? std::string("/v1/jobs") : format("/v1/jobs?{}", query)));
  return records_of<Job>(Kind::kJob, reply.body, "jobs");
}

Result<JobAnswer> Api::job_with_steps(JobId id) {
  const auto reply = TRY(call("GET", format("/v1/jobs/{}", id.value)));
  return job_answer(reply.body);
}

Result<Ref<Step>> Api::create_step(const StepRequest& request) {
  const auto reply = TRY(call("POST", format("/v1/jobs/{}/steps?wait=started", request.job.value), encode(request)));
  const auto text = json_member(reply.body, "step");
  if (!text)
    return Error{Errc::kInternal, "the cluster did not answer with a step", {}};
  const auto number = parse_uint(*text);
  if (!number)
    return record_of<Step>(Kind::kStep, *text);
  // Only its number: it still waits for resources.
  for (;;) {
    const auto known = TRY(step(request.job, static_cast<StepNo>(*number)));
    if (known->state != StepState::kPending)
      return known;
    sleep_for(millis(100));
  }
}

Result<Ref<Step>> Api::step(JobId id, StepNo number) {
  const auto reply = TRY(call("GET", format("/v1/steps/{}.{}", id.value, number)));
  const auto text = json_member(reply.body, "step");
  return record_of<Step>(Kind::kStep, text ? *text : std::string_view(reply.body));
}

Result<std::vector<Ref<Node>>> Api::nodes() {
  const auto reply = TRY(call("GET", "/v1/nodes", {}, seconds(10)));
  return records_of<Node>(Kind::kNode, reply.body, "nodes");
}

Result<std::vector<ScancelAsk::KnownUser>> Api::users() {
  const auto reply = TRY(call("GET", "/v1/users"));
  std::vector<ScancelAsk::KnownUser> out;
  for (const auto& user : TRY(records_of<User>(Kind::kUser, reply.body, "users")))
    out.push_back({user->meta.name, user->id, user->uid});
  return out;
}

Result<JobAnswer> Api::wait_once(JobId id, Until until, bool presence) {
  const std::string target = format("/v1/jobs/{}/wait?for={}{}", id.value,
                                    until == Until::kStarted ? "started" : "ended", presence ? "&presence=1" : "");
  const auto reply = TRY(call("GET", target, {}, seconds(90)));
  if (reply.status == 204)
    return JobAnswer{};
  if (json_member(reply.body, "job"))
    return job_answer(reply.body);
  return job_with_steps(id);
}

Result<JobAnswer> Api::wait(JobId id, Until until, bool presence, Duration patience) {
  Duration lost;
  for (;;) {
    auto answer = wait_once(id, until, presence);
    if (answer && answer->job) {
      const JobState state = answer->job->state;
      if (is_final(state) ||
          (until == Until::kStarted && (state == JobState::kRunning || state == JobState::kSuspended)))
        return answer;
      sleep_for(millis(20));  // an answer that does not hold any more
      continue;
    }
    if (answer) {
      lost = {};
      continue;
    }
    if (!connection_lost(answer.error()) || lost >= patience)
      return answer;
    const Duration pause = lost < seconds(2) ? millis(100) : seconds(1);
    sleep_for(pause);
    lost = lost + pause;
  }
}

Result<void> Api::cancel(std::string_view target, std::int32_t signal, std::string_view reach) {
  TRY(call("POST", format("/v1/jobs/{}/cancel", target), format("{{\"signal\":{},\"reach\":\"{}\"}}", signal, reach)));
  return {};
}

Result<void> Api::end(JobId id, ExitStatus exit, bool client_lost) {
  TRY(call("POST", format("/v1/jobs/{}/end", id.value),
           format("{{\"code\":{},\"signal\":{},\"client_lost\":{}}}", exit.code, exit.signal, client_lost)));
  return {};
}

Result<void> Api::signal_step(JobId id, StepNo number, std::int32_t signal) {
  TRY(call("POST", format("/v1/steps/{}.{}/signal", id.value, number), format("{{\"signal\":{}}}", signal)));
  return {};
}

Result<void> check_cluster_name(Api& cluster, std::string_view names) {
  if (names.empty() || lower(names) == "all")
    return {};
  const std::string own = TRY(cluster.name());
  for (const auto& name : split(names, ','))
    if (name == own)
      return {};
  return Error{Errc::kNotFound, format("No cluster '{}' known by database: this one is '{}'.", names, own), "clusters"};
}

}  // namespace lockstep
