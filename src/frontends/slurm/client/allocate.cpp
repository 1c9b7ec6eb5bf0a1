#include "frontends/slurm/client/allocate.h"

#include <poll.h>

#include "base/text.h"

namespace lockstep {

namespace {
constexpr int kDescriptors = 8;                        // connections and events while a step runs
constexpr std::int64_t kQuietMs = 300;                 // a grant within this time is not announced as a wait
constexpr Duration kControllerPatience = minutes(15);  // how long a pause or a restart of the controller may take

std::string_view failed_words(const Voice& voice) {
  return voice.command() == "salloc" ? "Job submit/allocate failed" : "Unable to allocate resources";
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

std::optional<Granted> allocate(const ClientContext& context, Api& api, const SubmitRequest& request,
                                std::optional<Duration> immediate, const Voice& voice, SignalDesk& signals) {
  const std::string_view failed = failed_words(voice);
  if (!has_descriptors(kDescriptors)) {  // found out later, it would leave an allocation that nobody gives back
    voice.error(format("{}: too few file descriptors are left: raise the limit (ulimit -n)", failed));
    return std::nullopt;
  }
  const auto id = api.submit(request);
  if (!id) {
    say_refusal(voice, failed, id.error());
    return std::nullopt;
  }
  Pending<Result<JobAnswer>> start([&context, job = *id]() {
    Api own(context);
    return own.wait(job, Api::Until::kAllocated, true, kControllerPatience);
  });
  const std::int64_t asked_ms = monotonic_ms();
  bool announced = false;
  for (;;) {
    const std::int64_t waited = monotonic_ms() - asked_ms;
    if (!announced && waited >= kQuietMs) {
      if (voice.command() == "salloc")
        voice.info(format("Pending job allocation {}", id->value));
      voice.info(format("job {} queued and waiting for resources", id->value));
      announced = true;
    }
    std::int64_t timeout = announced ? -1 : kQuietMs - waited;
    if (immediate) {
      if (waited >= immediate->millis()) {
        (void)api.cancel(format("{}", id->value), 0, CancelJob::Reach::kEverything);
        voice.error(format("{}: Requested nodes are busy", failed));
        return std::nullopt;
      }
      const std::int64_t left = immediate->millis() - waited;
      timeout = timeout < 0 ? left : std::min(timeout, left);
    }
    ::pollfd waits[] = {{start.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    ::poll(waits, 2, static_cast<int>(timeout));
    for (const int signal : signals.take()) {
      if (signal != SIGINT && signal != SIGTERM && signal != SIGQUIT && signal != SIGHUP)
        continue;
      (void)api.cancel(format("{}", id->value), 0, CancelJob::Reach::kEverything);
      voice.info(format("Job allocation {} has been revoked.", id->value));
      return std::nullopt;
    }
    auto answer = start.take();
    if (!answer)
      continue;
    if (!*answer) {
      voice.error(format("{}: job {}: {}", failed, id->value, answer->error().message));
      (void)api.cancel(format("{}", id->value), 0, CancelJob::Reach::kEverything);
      return std::nullopt;
    }
    const Job& job = *(*answer)->job;
    if (is_final(job.state)) {
      voice.info(format("Job allocation {} has been revoked.", id->value));
      voice.error(format("{}: the job is {}{}{}", failed, text_of(job.state), job.end_reason.empty() ? "" : ": ",
                         job.end_reason));
      return std::nullopt;
    }
    if (announced)
      voice.info(format("job {} has been allocated resources", id->value));
    return Granted{*id, std::move(**answer)};
  }
}

}  // namespace lockstep
