// Asks the webhooks of a request, one after the other or all at once, without anybody waiting for them on our thread.
#pragma once

#include <functional>

#include "base/time.h"
#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/server/request.h"
#include "ports/loop.h"

namespace lockstep::kube {

struct CallOut {
  std::string address;
  std::uint16_t port = 443;
  std::string server_name, ca_pem, target, body;
  Duration timeout;
  std::shared_ptr<Stream> through = nullptr;  // to the server already; null: it is dialled
};
// Calls a server; the answer's body, on our own thread. Error: why there is none, or it is no success.
using CallsOut = std::function<void(CallOut, std::function<void(Result<std::string>)>)>;

// What webhooks made of an object: null where it was to be removed.
struct Admitted {
  json::object tree;
  bool changed = false;
};

struct WebhookTools {
  CallsOut call;  // empty: nobody is called
  std::function<std::string(std::size_t)> random_hex;
  const Kinds* kinds = nullptr;
};

// On whose behalf webhooks are asked, and what that takes. Only used on the I/O thread.
class WebhookAsker {
 public:
  virtual ~WebhookAsker() = default;
  virtual const Tables& tables() const = 0;  // as they are now
  virtual AdmissionAttempt attempt(const json::object* tree, const json::object* old) const = 0;
  virtual void reach(const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) const = 0;
  // A tree of one of the attempt's forms in another.
  virtual void convert(json::object tree, const ObjectForm&, const ObjectForm&,
                       std::function<void(Answered<json::object>)> then) const {
    then(std::move(tree));
  }
  virtual bool dry_run() const = 0;
  virtual void warn(std::string words) = 0;
};

// The mutating ones, in their order, each with what those before it made of the object; those that want it are asked
// again when others changed it after them. old, tree: as in attempt_of().
void ask_mutating(const Asked& request, const WebhookTools& tools, const std::string& uid,
                  std::optional<json::object> tree, std::optional<json::object> old,
                  std::function<void(Answered<Admitted>)> then);
void ask_mutating(std::shared_ptr<WebhookAsker> asker, const CallsOut& call, const std::string& uid,
                  std::optional<json::object> tree, std::optional<json::object> old,
                  std::function<void(Answered<Admitted>)> then);
// The validating ones, all at once. Nothing: none of them refuses it.
void ask_validating(const Asked& request, const WebhookTools& tools, const std::string& uid,
                    std::optional<json::object> tree, std::optional<json::object> old,
                    std::function<void(std::optional<Status>)> then);
void ask_validating(const std::shared_ptr<WebhookAsker>& asker, const CallsOut& call, const std::string& uid,
                    std::optional<json::object> tree, std::optional<json::object> old,
                    std::function<void(std::optional<Status>)> then);

}  // namespace lockstep::kube
