// WebCaller: HTTPS requests to servers that others run (admission webhooks), beside a loop. Whom to trust each call
// says by itself.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "io/descriptor.h"
#include "io/errand.h"
#include "ports/loop.h"

namespace lockstep {

struct WebCall {
  std::string address;  // what is dialled: an address or a name
  std::uint16_t port = 443;
  std::string server_name;  // what the certificate must be for, and what is said in Host
  std::string ca_pem;       // whom to trust; "" = the authorities of the system
  std::string target;       // "/validate?timeout=10s"
  std::string body;         // JSON, sent as POST
  Duration timeout = seconds(10);
  std::shared_ptr<Stream> through = nullptr;  // to the server already; null: address and port are dialled
};

inline constexpr std::size_t kWebAnswerMax = 4 << 20;  // bytes of an answer's body

struct WebAnswer {
  int status = 0;
  std::string body;
};

// Blocks. socket: connected to the server already; -1: it is dialled. kTimeout: "context deadline exceeded"; kDenied:
// the certificate is not to be trusted; kUnavailable otherwise.
Result<WebAnswer> web_call(const WebCall& call, int socket = -1);

class WebCaller {
 public:
  static constexpr std::size_t kAtOnce = 16, kWaiting = 256;

  explicit WebCaller(EventLoop& loop) : loop_(loop) {}

  // done: on the loop's thread. kExhausted at once: too many wait already.
  void call(WebCall call, std::function<void(Result<WebAnswer>)> done);

 private:
  struct Job {
    WebCall call;
    std::shared_ptr<const Fd> socket;  // our end of what leads through the stream
    std::function<void(Result<WebAnswer>)> done;
  };
  void begin_next();

  EventLoop& loop_;
  std::deque<Job> waiting_;
  std::vector<std::unique_ptr<Errand>> errands_;
};

}  // namespace lockstep
