// Requests that are passed on to servers of others, with what they answer as it comes. Who carries the bytes is not
// here (io/web_forward.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/server/stream_room.h"
#include "frontends/kube/server/user.h"
#include "ports/loop.h"

namespace lockstep::kube {

inline constexpr const char* kFrontProxyName = "front-proxy-client";  // of the certificate that is shown

struct PassedRequest {
  std::string address;
  std::uint16_t port = 443;
  std::string server_name, ca_pem;
  bool anybody = false;  // whoever answers there
  std::string method, head, body;
  Duration patience = seconds(60);  // until the head of the answer
  std::shared_ptr<Stream> through = nullptr;
};
struct PassedAnswer {
  std::function<void(int status, std::vector<std::pair<std::string, std::string>> headers)> head;
  std::function<void(std::string_view)> body;
  std::function<void(Result<void>)> end;
};
class PassedOn {  // the connection is closed when it goes
 public:
  virtual ~PassedOn() = default;
  virtual void pause(bool paused) = 0;
};
// Shows the certificate of the front proxy, which says that what the headers tell of the user is true.
using PassesOn = std::function<std::shared_ptr<PassedOn>(PassedRequest, PassedAnswer)>;

// The head of what is sent: the client's own, without what was between it and us, and with who asks.
std::string passed_head(const HttpRequest& http, const KubeUser& user, std::string_view host);

// Passes the visit's request on to where `target` is, and its answer back: whole, or as it comes where it has no end.
void pass_on(const std::shared_ptr<FrontVisit>& visit, const KubeUser& user, WebhookTarget target, bool anybody,
             const PassesOn& passes_on, const std::shared_ptr<StreamRoom>& room);

// A stream to the target's pod; null without an error: its address is to be dialled.
void reach_target(
    const Tables& tables, const WebhookTarget& target,
    const std::function<void(const ContainerAsk&, std::function<void(Result<std::unique_ptr<Stream>>)>)>& reach,
    std::function<void(Result<std::shared_ptr<Stream>>)> then);

}  // namespace lockstep::kube
