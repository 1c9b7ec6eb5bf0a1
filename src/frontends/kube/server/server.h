// The server of Kubernetes' API: what it mounts in the controller, and what it needs of the world.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontends/kube/controllers/pod_admission.h"
#include "frontends/kube/controllers/pod_use.h"
#include "frontends/kube/server/account_tokens.h"
#include "frontends/kube/server/pass_on.h"
#include "frontends/kube/server/webhook_calls.h"
#include "routes/front_end.h"

namespace lockstep::kube {

struct KeyAndCertificate {
  std::string key_pem, certificate_pem;
};

struct KubePowers {
  std::function<std::string(std::size_t)> random_hex;
  std::function<std::string(std::string_view)> sha256_hex;
  std::function<std::string(std::string_view)> sha1;  // 20 bytes
  // For a user of the cluster, as `lockstep kubeconfig` writes it.
  std::function<Result<KeyAndCertificate>(const std::string& user)> issue;
  std::function<std::string()> address;  // "https://127.0.0.1:6820"
  std::string ca_pem;
  TokenPowers tokens;
  CallsOut call;                                                             // for webhooks
  std::function<std::unique_ptr<Stream>(std::unique_ptr<Stream>)> over_tls;  // as of StreamTools
  PassesOn pass_on;                                         // of aggregated APIs; empty: none is reached
  std::function<std::vector<std::string>()> own_addresses;  // of this machine, as they are now; empty: none are known
  // Runs a task on the I/O thread; from any. Empty: webhooks are not asked about what controllers make.
  std::function<void(std::function<void()>)> post;
};

class KubeServer {
 public:
  KubeServer(KubePowers powers, std::string cluster_name);
  ~KubeServer();

  std::vector<FrontRoute> routes() const;  // they keep the server's parts alive
  std::vector<std::shared_ptr<FrontReader>> readers() const;
  UseSource uses() const;  // keeps what it asks alive
  // Who asks webhooks about pods that controllers make; null where powers.post is empty.
  std::shared_ptr<PodAdmission> pod_admission() const;

 private:
  struct Inner;
  std::shared_ptr<Inner> inner_;
};

}  // namespace lockstep::kube
