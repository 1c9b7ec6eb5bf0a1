#include "frontends/slurm/client/allocate.h"

#include <poll.h>

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/values.h"
#include "model/job.h"
#include "model/staging.h"

namespace lockstep::slurm {

namespace {
constexpr std::int64_t kCuriousMs = 2000;              // a wait longer than this has a foreseen end, perhaps
constexpr int kDescriptors = 8;                        // connections and events while a step runs
constexpr std::int64_t kQuietMs = 300;                 // a grant within this time is not announced as a wait
constexpr Duration kControllerPatience = minutes(15);  // how long a pause or a restart of the controller may take

std::string_view failed_words(const Voice& voice) {
  return voice.command() == "salloc" ? "Job submit/allocate failed" : "Unable to allocate resources";
}

bool ends(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGQUIT || signal == SIGHUP; }

bool is_away(const Error& error) {
  const bool lost = error.code == Errc::kUnavailable || error.code == Errc::kIo || error.code == Errc::kTimeout;
  return lost && error.field != "read-only";
}

// As long as the wait itself bears with a controller that is away: to cancel twice is to cancel once.
Result<void> cancel_surely(const ClientContext& context, JobId id) {
  const std::int64_t until = monotonic_ms() + kControllerPatience.millis();
  Api own(context, Bearing::kAtOnce);
  for (;;) {
    auto done = own.cancel(format("{}", id.value), 0, SignalReach::kEverything, context.patience);
    if (done || !is_away(done.error()) || monotonic_ms() >= until)
      return done;
    sleep_for(millis(200));
  }
}

using Cancelled = Pending<Result<void>>;
Cancelled cancel(const ClientContext& context, JobId id) {
  return Cancelled([&context, id] { return cancel_surely(context, id); });
}

// True: the job is gone, or was before.
bool is_gone(const Result<void>& done, JobId id, const Voice& voice) {
  if (done || done.error().code == Errc::kNotFound || done.error().code == Errc::kConflict)
    return true;
  voice.error(
      format("job {0} may not be cancelled yet: {1}. `scancel {0}` cancels it, and a job that nobody waits for is "
             "cancelled after a while",
             id.value, done.error().message));
  return false;
}

// Waits for a controller that is away, as scancel does: a job left behind would be granted to nobody, and would keep
// its nodes until it is known that its client has gone. Who does not want to wait gives one more signal.
bool take_back(const ClientContext& context, JobId id, const Voice& voice, SignalDesk& signals) {
  Cancelled cancelled = cancel(context, id);
  if (cancelled.refused()) {  // there is no thread for it
    Api own(context, Bearing::kAtOnce);
    return is_gone(own.cancel(format("{}", id.value), 0, SignalReach::kEverything, seconds(5)), id, voice);
  }
  bool told = false;
  for (;;) {
    ::pollfd waits[] = {{cancelled.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    ::poll(waits, std::size(waits), told ? -1 : static_cast<int>(kQuietMs));
    if (const auto done = cancelled.take())
      return is_gone(*done, id, voice);
    for (const int signal : signals.take()) {
      if (!ends(signal))
        continue;
      voice.error(
          format("whether job {0} is cancelled is not known: the controller has not answered yet. `scancel {0}` makes "
                 "sure",
                 id.value));
      return false;
    }
    if (!told)
      voice.info(
          format("job {}: waiting for the controller to cancel it; one more signal leaves at once, and the job stays",
                 id.value));
    told = true;
  }
}

// When the cluster foresees the start, and who says more: for who waits. The planner needs a moment to know.
using Foresight = Pending<Result<std::string>>;
Foresight ask_when(const ClientContext& context, JobId id) {
  return Foresight([&context, id]() -> Result<std::string> {
    Api api(context, Bearing::kAtOnce);
    const auto reply = TRY(api.call("GET", format("/slurm/v1/squeue?jobs={}&columns=starttime", id.value)));
    const auto start = parse_uint(trim(reply.body));
    const std::string why = format("`lockstep explain {}` says why it waits", id.value);
    if (!start || *start == 0)
      return why;
    return format("expected start {}; {}", time_text(static_cast<std::int64_t>(*start), "", "", 0), why);
  });
}

}  // namespace

JobEnd watch_end(const ClientContext& context, JobId id) {
  return JobEnd([&context, id]() -> Result<Ref<Job>> {
    Api api(context, Bearing::kAtOnce);
    auto answer = api.wait(id, Api::Until::kEnded, true, kControllerPatience);
    if (!answer)
      return answer.error();
    return answer->job;
  });
}

namespace {

int told_of_stage_out(const Result<JobAnswer>& answer, JobId id, int code, const Voice& voice) {
  if (!answer) {
    voice.error(format("job {}: whether its files were copied out is not known: {}", id.value, answer.error().message));
    return std::max(code, 1);
  }
  const std::string& reason = answer->job->end_reason;
  const auto at = reason.find(kStageOutFailed);
  if (at == reason.npos)
    return code;
  voice.error(format("job {}: {}", id.value, reason.substr(at)));
  return std::max(code, 1);
}

}  // namespace

int await_stage_out(const ClientContext& context, JobId id, const JobSpec& spec, int code, const Voice& voice,
                    SignalDesk& signals) {
  if (spec.stage_out.empty())
    return code;
  Pending<Result<JobAnswer>> end([&context, id] {
    Api own(context);
    return own.wait(id, Api::Until::kEnded, false, kControllerPatience);
  });
  signals.take();  // what came before was for the tasks
  const std::int64_t asked_ms = monotonic_ms();
  for (bool told = false;;) {
    if (const auto answer = end.take())
      return told_of_stage_out(*answer, id, code, voice);
    const std::int64_t waited_ms = monotonic_ms() - asked_ms;
    if (!told && waited_ms >= kCuriousMs) {
      voice.info(
          format("job {}: its files are being copied out; a signal (Ctrl-C) leaves the wait, and the copying "
                 "goes on",
                 id.value));
      told = true;
    }
    ::pollfd waits[] = {{end.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    ::poll(waits, std::size(waits), told ? -1 : static_cast<int>(kCuriousMs - waited_ms));
    for (const int signal : signals.take())
      if (ends(signal)) {
        voice.error(
            format("job {0}: its files are still being copied out: `scontrol show job {0}` says how far that "
                   "is, and what failed",
                   id.value));
        return code != 0 ? code : 128 + signal;
      }
  }
}

Result<std::optional<Duration>> immediate_of(const OptionSet& options) {
  const Given* given = options.find("immediate");
  if (!given)
    return std::optional<Duration>();
  const auto value = given->text.empty() ? std::optional<std::uint32_t>(1) : parse_count(given->text);
  if (!value)
    return bad_value(options, "immediate");
  return std::optional(seconds(std::max(1U, *value)));
}

namespace {

// What is told to who waits for a job to start: that it waits, and a while later when that will end, if it is foreseen.
class WaitingWords {
 public:
  WaitingWords(const ClientContext& context, const Voice& voice, JobId id)
      : context_(context), voice_(voice), id_(id) {}

  void tell(std::int64_t waited_ms) {
    if (curious_ && waited_ms >= kCuriousMs) {
      curious_ = false;
      when_ = ask_when(context_, id_);
    }
    if (const auto told = when_.take(); told && *told)
      voice_.info(format("job {}: {}", id_.value, **told));
    if (announced_ || waited_ms < kQuietMs)
      return;
    announced_ = true;
    if (voice_.command() == "salloc")
      voice_.info(format("Pending job allocation {}", id_.value));
    voice_.info(format("job {} queued and waiting for resources", id_.value));
  }
  void tell_granted() const {
    if (announced_)
      voice_.info(format("job {} has been allocated resources", id_.value));
  }
  std::int64_t due_in(std::int64_t waited_ms) const {  // -1 = never
    return !announced_ ? kQuietMs - waited_ms : curious_ ? kCuriousMs - waited_ms : -1;
  }
  int fd() const { return when_.fd(); }

 private:
  const ClientContext& context_;
  const Voice& voice_;
  JobId id_;
  bool announced_ = false, curious_ = true;
  Foresight when_;
};

bool is_told_to_end(SignalDesk& signals) {
  bool told = false;
  for (const int signal : signals.take()) told |= ends(signal);
  return told;
}

Result<JobId> submit(Api& api, const SubmitRequest& request, const Voice& voice) {
  const MayBeEnded open(
      format("{}: error: ended before the cluster answered. Whether the job was submitted is not known: "
             "squeue --me shows it\n",
             voice.command()));
  return api.submit(request);
}

// Of an answer that came: the grant, or why there is none, which is said.
std::optional<Granted> granted(const ClientContext& context, JobId id, Result<JobAnswer> answer, const Voice& voice,
                               SignalDesk& signals) {
  const std::string_view failed = failed_words(voice);
  if (!answer) {
    voice.error(format("{}: job {}: {}", failed, id.value, answer.error().message));
    take_back(context, id, voice, signals);
    return std::nullopt;
  }
  const Job& job = *answer->job;
  if (!is_final(job.state))
    return Granted{id, std::move(*answer)};
  voice.info(format("Job allocation {} has been revoked.", id.value));
  voice.error(
      format("{}: the job is {}{}{}", failed, text_of(job.state), job.end_reason.empty() ? "" : ": ", job.end_reason));
  return std::nullopt;
}

std::int64_t sooner(std::int64_t a_ms, std::int64_t b_ms) {  // negative = never
  return a_ms < 0 ? b_ms : b_ms < 0 ? a_ms : std::min(a_ms, b_ms);
}

}  // namespace

std::optional<Granted> allocate(const ClientContext& context, Api& api, const SubmitRequest& request,
                                std::optional<Duration> immediate, const Voice& voice, SignalDesk& signals) {
  const std::string_view failed = failed_words(voice);
  if (!has_descriptors(kDescriptors)) {  // found out later, it would leave an allocation that nobody gives back
    voice.error(format("{}: too few file descriptors are left: raise the limit (ulimit -n)", failed));
    return std::nullopt;
  }
  const auto id = submit(api, request, voice);
  if (!id) {
    say_refusal(voice, failed, id.error());
    return std::nullopt;
  }
  if (!api.warning().empty())
    voice.warning(format("job {}: {}", id->value, api.warning()));
  Pending<Result<JobAnswer>> start([&context, job = *id]() {
    Api own(context);
    auto answer = own.wait(job, Api::Until::kAllocated, true, kControllerPatience);
    // Nothing of it runs, and no step of it can be laid out, before its files are on all of its nodes.
    if (answer && !is_final(answer->job->state) && !answer->job->spec->stage_in.empty())
      return own.wait(job, Api::Until::kStarted, true, kControllerPatience);
    return answer;
  });
  const std::int64_t asked_ms = monotonic_ms();
  WaitingWords words(context, voice, *id);
  for (;;) {
    const std::int64_t waited = monotonic_ms() - asked_ms;
    words.tell(waited);
    if (immediate && waited >= immediate->millis()) {
      take_back(context, *id, voice, signals);
      voice.error(format("{}: Requested nodes are busy", failed));
      return std::nullopt;
    }
    const std::int64_t timeout = sooner(words.due_in(waited), immediate ? immediate->millis() - waited : -1);
    ::pollfd waits[] = {{start.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}, {words.fd(), POLLIN, 0}};
    ::poll(waits, std::size(waits), static_cast<int>(timeout));
    if (is_told_to_end(signals)) {
      if (take_back(context, *id, voice, signals))
        voice.info(format("Job allocation {} has been revoked.", id->value));
      return std::nullopt;
    }
    if (auto answer = start.take()) {
      auto out = granted(context, *id, std::move(*answer), voice, signals);
      if (out)
        words.tell_granted();
      return out;
    }
  }
}

}  // namespace lockstep::slurm
