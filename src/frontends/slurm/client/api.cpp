#include "frontends/slurm/client/api.h"

#include <signal.h>
#include <sys/random.h>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/signal_desk.h"
#include "model/job.h"
#include "wire/api.h"
#include "wire/foresight.h"

namespace lockstep::slurm {

namespace {

template <class T>
Result<std::vector<Ref<T>>> records_of(Kind kind, std::string_view body) {
  std::vector<Ref<T>> out;
  for (auto& record : TRY(decode_records(kind, body)))
    if (auto* value = std::get_if<Ref<T>>(&record))
      out.push_back(std::move(*value));
  return out;
}

// {"job":…,"steps":[…]}, or with one "step".
Result<JobAnswer> job_answer(std::string_view body) {
  auto detail = TRY(decode_job_detail(body));
  JobAnswer out{std::move(detail.job), std::move(detail.steps)};
  if (out.steps.empty())
    if (auto started = decode_started(body); started && started->step)
      out.steps.push_back(started->step);
  return out;
}

// 128 bits; "" where the kernel has none to give.
std::string random_name() {
  std::uint64_t bits[2];
  if (::getrandom(bits, sizeof bits, 0) != sizeof bits)
    return {};
  return format("{:016x}{:016x}", bits[0], bits[1]);
}

bool connection_lost(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kIo || error.code == Errc::kTimeout;
}

}  // namespace

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

Result<ApiClient::Reply> Api::call(std::string_view method, std::string_view target, std::string_view body,
                                   std::optional<Duration> timeout, bool is_named) {
  auto reply = line_.call(method, target, body, timeout, is_named);
  if (reply && reply->status >= 400)
    return decode_error(reply->body, reply->status);
  return reply;
}

Result<std::string> Api::name() {
  const auto reply = TRY(call("GET", "/v1/ping"));
  return TRY(decode_ping(reply.body)).cluster;
}

Result<JobId> Api::submit(const SubmitRequest& request) {
  const std::string name = random_name();
  const std::string target = name.empty() ? "/v1/jobs" : "/v1/jobs?request=" + name;
  const auto reply = TRY(call("POST", target, encode(request), {}, !name.empty()));
  Submitted submitted = TRY(decode_submitted(reply.body));
  warning_ = std::move(submitted.warning);
  return submitted.job;
}

Result<std::string> Api::try_submit(const SubmitRequest& request) {
  CHECK(request.test_only);
  const auto reply = TRY(call("POST", "/v1/jobs", encode(request)));
  const TrySubmit tried = TRY(decode_try_submit(reply.body));
  if (!tried.foreseen.start)
    return tried.message;
  return sentence(tried.job, tried.foreseen, time_text(tried.foreseen.start.seconds(), "", "", 0));
}

Result<Ref<Job>> Api::job_named(const std::string& id) {
  const auto reply = TRY(call("GET", "/v1/jobs/" + id));
  return TRY(decode_job_detail(reply.body)).job;
}

Result<std::vector<Ref<Job>>> Api::jobs(std::string_view query) {
  const auto reply = TRY(call("GET", query.empty() ? std::string("/v1/jobs") : format("/v1/jobs?{}", query)));
  return records_of<Job>(Kind::kJob, reply.body);
}

Result<JobAnswer> Api::job_with_steps(JobId id) {
  const auto reply = TRY(call("GET", format("/v1/jobs/{}", id.value)));
  return job_answer(reply.body);
}

Result<Ref<Step>> Api::create_step(const StepRequest& request, bool ends_with_us) {
  const std::string name = random_name();
  const std::string target = format("/v1/jobs/{}/steps?wait=started{}{}{}", request.job.value,
                                    ends_with_us ? "&presence=1" : "", name.empty() ? "" : "&request=", name);
  const auto reply = TRY(call("POST", target, encode(request), kForever, !name.empty()));
  if (auto started = decode_started(reply.body); started && started->step)
    return started->step;
  // Only its number: it still waits for resources.
  const StepNo number = TRY(decode_step_created(reply.body));
  for (;;) {
    const auto known = TRY(step(request.job, number));
    if (known->state != StepState::kPending)
      return known;
    sleep_for(millis(100));
  }
}

Result<Ref<Step>> Api::step(JobId id, StepNo number) {
  const auto reply = TRY(call("GET", format("/v1/steps/{}.{}", id.value, number)));
  const Record record = TRY(decode_record(Kind::kStep, reply.body));
  return std::get<Ref<Step>>(record);
}

Result<std::vector<Ref<Node>>> Api::nodes() {
  const auto reply = TRY(call("GET", "/v1/nodes", {}, seconds(10)));
  return records_of<Node>(Kind::kNode, reply.body);
}

Result<std::vector<ScancelAsk::KnownUser>> Api::users() {
  const auto reply = TRY(call("GET", "/v1/users"));
  std::vector<ScancelAsk::KnownUser> out;
  for (const auto& user : TRY(records_of<User>(Kind::kUser, reply.body)))
    out.push_back({user->meta.name, user->id, user->uid});
  return out;
}

Result<JobAnswer> Api::wait_once(JobId id, Until until, bool presence) {
  constexpr const char* kWords[] = {"allocated", "started", "ended"};
  const std::string target = format("/v1/jobs/{}/wait?for={}{}", id.value, kWords[static_cast<std::size_t>(until)],
                                    presence ? "&presence=1" : "");
  const auto reply = TRY(call("GET", target, {}, seconds(90)));
  if (reply.status == 204)
    return JobAnswer{};
  return job_answer(reply.body);
}

Result<JobAnswer> Api::wait(JobId id, Until until, bool presence, Duration patience) {
  Duration lost;
  for (;;) {
    auto answer = wait_once(id, until, presence);
    if (answer && answer->job) {
      const JobState state = answer->job->state;
      const bool runs = state == JobState::kRunning || state == JobState::kSuspended;
      if (is_final(state) || (until == Until::kAllocated && (runs || state == JobState::kStarting)) ||
          (until == Until::kStarted && runs))
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

namespace {

// To end what has ended is nothing. A program may count any other signal.
bool may_be_asked_twice(std::int32_t signal) { return signal == 0 || signal == SIGKILL; }

}  // namespace

Result<void> Api::cancel(std::string_view target, std::int32_t signal, SignalReach reach,
                         std::optional<Duration> within) {
  TRY(call("POST", format("/v1/jobs/{}/cancel", target), encode(CancelJob{{}, signal, reach}), within,
           may_be_asked_twice(signal)));
  return {};
}

Result<CancelledMany> Api::cancel_many(const CancelMany& ask) {
  return decode_cancelled_many(
      TRY(call("POST", "/v1/jobs/cancel", encode(ask), {}, may_be_asked_twice(ask.signal))).body);
}

Result<void> Api::end(JobId id, ExitStatus exit, bool client_lost, std::optional<Duration> within) {
  const std::int64_t done_ms = monotonic_ms();
  std::string body;
  const auto as_sent = [&]() -> std::string_view {
    body = encode(EndJob{id, exit, client_lost, millis(monotonic_ms() - done_ms)});
    return body;
  };
  // Ending it twice is ending it once, so it may be sent again.
  const auto reply =
      TRY(line_.call_as_sent("POST", format("/v1/jobs/{}/end", id.value), as_sent, within, !within.has_value()));
  if (reply.status >= 400)
    return decode_error(reply.body, reply.status);
  return {};
}

Result<void> Api::signal_step(JobId id, StepNo number, std::int32_t signal, std::optional<Duration> within) {
  const bool may_repeat = signal == 0 && !within;  // to end it twice is to end it once; a signal would arrive twice
  TRY(call("POST", format("/v1/steps/{}.{}/signal", id.value, number), encode(SignalStep{id, number, signal}), within,
           may_repeat));
  return {};
}

Result<std::string> check_cluster_name(Api& cluster, std::string_view names) {
  if (names.empty())
    return std::string();
  std::string own = TRY(cluster.name());
  for (const auto& name : items_of(names))
    if (name == own || lower(name) == "all")
      return own;
  return Error{Errc::kNotFound, format("No cluster '{}' known by database: this one is '{}'.", names, own), "clusters"};
}

}  // namespace lockstep::slurm
