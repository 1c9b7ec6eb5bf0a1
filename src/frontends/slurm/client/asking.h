// One request after the other over a kept connection, with what a command should bear: a controller that starts again
// after a crash, one that is silent, and being told "too many of yours at once". Nothing is sent twice but what only
// asks, has a name by which the cluster knows it again, or comes to the same when it is done twice: another change that
// may have arrived is never sent again.
#pragma once

#include <optional>
#include <string_view>

#include "frontends/slurm/client/context.h"

namespace lockstep::slurm {

enum class Bearing : unsigned char {
  kPatient,  // waits for a controller that is away, and says so
  kAtOnce,   // fails: the caller tries again by itself
};

class Asking {
 public:
  explicit Asking(const ClientContext& context, Bearing bearing = Bearing::kPatient)
      : context_(context), bearing_(bearing) {}

  // timeout: none for ordinary requests, of which a query ends after the context's time-out, and whose silence is told
  // after some seconds; given for those that wait for something to happen.
  // is_named: the cluster knows the request by a name in its target, or may well be asked twice, so it is sent again
  // like a question.
  Result<ApiClient::Reply> call(std::string_view method, std::string_view target, std::string_view body,
                                std::optional<Duration> timeout, bool is_named = false);
  // The same with a body that is made anew each time it is sent, for what says how long ago something was.
  using Body = std::function<std::string_view()>;
  Result<ApiClient::Reply> call_as_sent(std::string_view method, std::string_view target, const Body& body,
                                        std::optional<Duration> timeout, bool is_named = false);

 private:
  Result<ApiClient::Reply> once(std::string_view method, std::string_view target, const Body& body,
                                std::optional<Duration> timeout);
  Result<ApiClient::Reply> once_from_controller(std::string_view method, std::string_view target, const Body& body,
                                                std::optional<Duration> timeout, bool may_repeat);
  const ClientContext& context_;
  Bearing bearing_;
  std::unique_ptr<ApiClient> client_;
  bool reached_ = false;  // by the last question
};

void sleep_for(Duration time);

}  // namespace lockstep::slurm
