#include "hostile/front_ends.h"

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/reconcilers.h"
#include "frontends/kube/server/server.h"
#include "frontends/mounted/mounted.h"
#include "io/random.h"
#include "io/sha256.h"

namespace lockstep::hostile {

namespace {

kube::KubePowers kube_powers(std::function<void(std::function<void()>)> post) {
  kube::KubePowers out;
  out.random_hex = random_hex;
  out.sha256_hex = [](std::string_view bytes) { return sha256_hex(bytes); };
  out.sha1 = [](std::string_view bytes) { return sha1(bytes); };
  out.issue = [](const std::string&) -> Result<kube::KeyAndCertificate> { return invalid("none are issued here"); };
  out.address = [] { return std::string("https://127.0.0.1:6820"); };
  out.ca_pem = "CA";
  out.tokens.sign = [](std::string_view claims) { return std::string(claims); };
  out.tokens.verify = [](std::string_view) { return std::optional<std::string>(); };
  out.tokens.key_set = [] { return std::string("{}"); };
  out.call = [](kube::CallOut, std::function<void(Result<std::string>)> then) { then(invalid("nobody is called")); };
  out.post = std::move(post);
  return out;
}

}  // namespace

void mount_front_ends(ControllerSettings& settings, std::function<void(std::function<void()>)> post) {
  const kube::KubeServer kube(kube_powers(std::move(post)), "hostile");
  settings.api.routes = std::make_shared<const Routes>(front_end_routes(kube));
  settings.api.readers = kube.readers();
  settings.api.front_actor = [uses = kube.uses(), admission = kube.pod_admission()] {
    return std::make_unique<kube::Reconcilers>(
        kube::all_controllers("CA", uses, [] { return std::string("127.0.0.1:6820"); }, {}), admission);
  };
}

}  // namespace lockstep::hostile
