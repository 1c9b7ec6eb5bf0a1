#include "frontends/slurm/client/asking.h"

#include <time.h>

#include "base/text.h"
#include "frontends/slurm/client/signal_desk.h"
#include "wire/codec.h"

namespace lockstep {

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

Result<ApiClient::Reply> Asking::once(std::string_view method, std::string_view target, std::string_view body,
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
  const Duration ordinary = method == "GET" ? context_.message_timeout : kForever;
  auto reply = call_patiently(*client_, method, target, body, timeout.value_or(ordinary));
  if (reply)
    return reply;
  client_.reset();
  Error error = reply.error();
  if (method != "GET" && was_lost(error))
    error.message += ". Whether it was carried out is not known: look before you ask for it again";
  return error;
}

Result<ApiClient::Reply> Asking::call(std::string_view method, std::string_view target, std::string_view body,
                                      std::optional<Duration> timeout) {
  const std::int64_t until = monotonic_ms() + context_.patience.millis();
  for (;;) {
    auto reply = once(method, target, body, timeout);
    const bool may_repeat = method == "GET" && !timeout && bearing_ == Bearing::kPatient;
    if (reply || !reached_ || !was_lost(reply.error()) || !may_repeat || monotonic_ms() >= until)
      return reply;
    sleep_for(millis(100));
  }
}

}  // namespace lockstep
