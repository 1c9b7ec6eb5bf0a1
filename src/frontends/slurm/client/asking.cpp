#include "frontends/slurm/client/asking.h"

#include <time.h>

#include "base/text.h"
#include "frontends/slurm/client/signal_desk.h"
#include "wire/codec.h"

namespace lockstep::slurm {

namespace {

constexpr Duration kSilence = seconds(3);  // after which one says whom one waits for

// The caller's own rate or queue is full, which passes; a quota is 429 as well, and does not.
bool crowded(const ApiClient::Reply& reply) {
  if (reply.status != 429)
    return false;
  const Error error = decode_error(reply.body, reply.status);
  return error.field == "rate" || error.field == "pending";
}

// The connection broke, or there was none: the question may be put again.
bool was_lost(const Error& error) { return error.code == Errc::kUnavailable || error.code == Errc::kIo; }

// What asked for a change may have been carried out without our hearing of it.
bool end_unknown(const Error& error) { return was_lost(error) || error.code == Errc::kTimeout; }

// A node's agent answers for a controller that went away over the request, which is as good as a broken connection.
bool lost_behind_agent(const ApiClient::Reply& reply) {
  return reply.status == 503 && decode_error(reply.body, reply.status).field == kControllerLost;
}

// A cluster that says "too many of yours at once" is asked again after a pause, for half a minute.
Result<ApiClient::Reply> call_patiently(ApiClient& client, std::string_view method, std::string_view target,
                                        std::string_view body, Duration timeout) {
  constexpr Duration kLongest = seconds(4), kPatience = seconds(30);
  Duration pause = millis(250), paused;
  for (;;) {
    auto reply = client.call(method, target, body, timeout);
    if (!reply || !crowded(*reply) || paused >= kPatience)
      return reply;
    sleep_for(pause);
    paused = paused + pause;
    pause = std::min(kLongest, pause + pause);
  }
}

}  // namespace

void sleep_for(Duration time) {
  ::timespec left{time.us / 1'000'000, (time.us % 1'000'000) * 1000};
  ::nanosleep(&left, nullptr);
}

Result<ApiClient::Reply> Asking::once(std::string_view method, std::string_view target, const Body& body,
                                      std::optional<Duration> timeout) {
  reached_ = false;  // to connect is tried as long as it makes sense, once
  if (!client_)
    client_ = TRY(bearing_ == Bearing::kPatient ? context_.connect() : context_.connect_at_once());
  reached_ = true;
  std::function<void()> tell;
  if (!timeout && bearing_ == Bearing::kPatient && context_.tell)
    tell = [this] {
      context_.tell(format("waiting for the controller, which has not answered for {} s", kSilence.seconds()));
    };
  client_->on_silence(kSilence, std::move(tell));
  const Duration ordinary = method == "GET" ? context_.message_timeout : context_.answer_timeout;
  auto reply = call_patiently(*client_, method, target, body(), timeout.value_or(ordinary));
  if (reply)
    return reply;
  client_.reset();
  return reply;
}

Result<ApiClient::Reply> Asking::call(std::string_view method, std::string_view target, std::string_view body,
                                      std::optional<Duration> timeout, bool is_named) {
  return call_as_sent(
      method, target, [body] { return body; }, timeout, is_named);
}

// An answer that stands for a controller that is away is none where the question may be put again.
Result<ApiClient::Reply> Asking::once_from_controller(std::string_view method, std::string_view target,
                                                      const Body& body, std::optional<Duration> timeout,
                                                      bool may_repeat) {
  auto reply = once(method, target, body, timeout);
  if (reply && may_repeat && lost_behind_agent(*reply))
    return decode_error(reply->body, reply->status);
  return reply;
}

Result<ApiClient::Reply> Asking::call_as_sent(std::string_view method, std::string_view target, const Body& body,
                                              std::optional<Duration> timeout, bool is_named) {
  const bool changes = method != "GET";
  const bool may_repeat = (is_named || (!changes && !timeout)) && bearing_ == Bearing::kPatient;
  std::int64_t until = monotonic_ms() + context_.patience.millis();
  bool may_have_arrived = false;
  for (;;) {
    const std::int64_t asked_ms = monotonic_ms();
    auto reply = once_from_controller(method, target, body, timeout, may_repeat);
    if (reply)
      return reply;
    if (monotonic_ms() - asked_ms > context_.patience.millis())  // it was there for long, and has gone now
      until = monotonic_ms() + context_.patience.millis();
    Error error = reply.error();
    may_have_arrived |= reached_ && end_unknown(error);
    if (!reached_ || !was_lost(error) || !may_repeat || monotonic_ms() >= until) {
      if (changes && may_have_arrived)
        error.message += ". Whether it was carried out is not known: look before you ask for it again";
      return error;
    }
    sleep_for(millis(100));
  }
}

}  // namespace lockstep::slurm
