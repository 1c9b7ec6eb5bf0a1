#include "frontends/kube/server/health.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/server/target.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kHealthNames[] = {"healthz", "livez", "readyz"};
// By the names under which scripts look for them. Source: kubernetes.io/docs/reference/using-api/health-checks.
constexpr std::string_view kChecks[] = {"ping",
                                        "log",
                                        "etcd",
                                        "informer-sync",
                                        "poststarthook/start-apiserver-admission-initializer",
                                        "poststarthook/generic-apiserver-start-informers",
                                        "poststarthook/start-apiextensions-informers",
                                        "poststarthook/start-apiextensions-controllers",
                                        "poststarthook/crd-informer-synced",
                                        "poststarthook/bootstrap-controller",
                                        "poststarthook/start-system-namespaces-controller",
                                        "poststarthook/start-service-ip-repair-controllers",
                                        "poststarthook/rbac/bootstrap-roles",
                                        "poststarthook/scheduling/bootstrap-system-priority-classes",
                                        "poststarthook/priority-and-fairness-config-producer",
                                        "poststarthook/start-cluster-authentication-info-controller",
                                        "poststarthook/start-kube-aggregator-informers",
                                        "poststarthook/apiservice-registration-controller",
                                        "poststarthook/apiservice-status-local-available-controller",
                                        "poststarthook/apiservice-status-remote-available-controller",
                                        "poststarthook/kube-apiserver-autoregistration",
                                        "autoregister-completion",
                                        "poststarthook/apiservice-openapi-controller"};

HttpResponse plain(int status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::move(text), {{"X-Content-Type-Options", "nosniff"}}};
}

}  // namespace

std::vector<std::string> health_paths() {
  std::vector<std::string> out;
  for (const std::string_view name : kHealthNames) {
    out.push_back(format("/{}", name));
    for (const std::string_view check : kChecks) out.push_back(format("/{}/{}", name, check));
  }
  return out;
}

std::optional<HttpResponse> health_answer(const HttpRequest& http) {
  const std::string path = plain_path(http);
  for (const std::string_view name : kHealthNames) {
    const std::string root = "/" + std::string(name);
    if (path != root && !path.starts_with(root + "/"))
      continue;
    if (path != root)
      return std::ranges::find(kChecks, std::string_view(path).substr(root.size() + 1)) == std::end(kChecks)
                 ? plain(404, "404 page not found\n")
                 : plain(200, "ok");
    if (!http.query.contains("verbose"))
      return plain(200, "ok");
    const auto excluded = http.query.find("exclude");
    std::string out;
    for (const std::string_view check : kChecks)
      out += excluded != http.query.end() && excluded->second == check ? format("[+]{} excluded: ok\n", check)
                                                                       : format("[+]{} ok\n", check);
    return plain(200, format("{}{} check passed\n", out, name));
  }
  return std::nullopt;
}

}  // namespace lockstep::kube
