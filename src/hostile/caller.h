// The outside as the controller meets it: requests of any identity, and what becomes of them. As strict as the real
// server: answered once, upgraded only when the request asked for it, and a stream that nobody reads fills up.
// Everything here is touched on the loop's thread, until a call is over.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ports/http.h"

namespace lockstep::hostile {

// The far end of an upgraded connection.
struct Wire {
  bool reads = true;                           // false: what is sent stays unsent
  std::size_t unread = 0;                      // bytes sent that this end has not taken
  std::function<void(std::string_view)> sent;  // what the controller says, as it says it
  std::function<void(std::string_view)> data;  // into the controller
  std::function<void()> closed;
  std::function<void()> drained;
  bool gone = false;  // the controller closed it or let it go
};

// One request and its outcome. The attacker's thread waits for `over`; the rest is valid from then on.
struct Call {
  std::string what;  // for reports: who, method, path, the body's beginning
  std::uint32_t uid = 0;
  bool admin = false;
  bool is_node_root = false;  // reaches the jobs that its node holds, and no others (ServerTest looks at that)
  std::atomic<bool> over = false;
  std::optional<HttpResponse> response;
  std::shared_ptr<Wire> wire;
  std::function<void()> gone;
};

std::shared_ptr<HttpExchange> make_exchange(HttpRequest request, std::shared_ptr<Call> call);

}  // namespace lockstep::hostile
