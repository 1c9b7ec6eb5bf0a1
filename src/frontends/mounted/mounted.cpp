#include "frontends/mounted/mounted.h"

#include "frontends/slurm/server/pages.h"

namespace lockstep {

std::vector<FrontRoute> front_end_routes(const kube::KubeServer& kube) {
  std::vector<FrontRoute> out = slurm::routes();
  for (FrontRoute& route : kube.routes()) out.push_back(std::move(route));
  return out;
}

std::vector<FrontRoute> front_end_rows() {
  kube::KubePowers none;
  none.random_hex = [](std::size_t bytes) { return std::string(2 * bytes, '0'); };
  return front_end_routes(kube::KubeServer(std::move(none), "nowhere"));
}

}  // namespace lockstep
