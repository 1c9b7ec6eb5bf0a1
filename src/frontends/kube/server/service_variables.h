// Variables by which containers find Services, in both of the forms that Kubernetes gives.
// Source: kubernetes.io/docs/concepts/services-networking/service ("Environment variables").
#pragma once

#include <map>
#include <memory>
#include <string>

#include "frontends/kube/kinds/pod_env.h"
#include "routes/front_end.h"

namespace lockstep::kube {

// Of each Service, worked out once when it changes, however many pods ask.
class ServiceVariables final : public FrontReader {
 public:
  static constexpr std::size_t kOfSpaceMax = 256 << 10;  // bytes of names and values

  void begin(const Tables& tables) override;
  void change(const Tables& before, const Change& change) override;

  // Whether those of all Services of the namespace together are too long for anybody.
  bool are_too_long(const std::string& ns) const;
  // Of the Services of the namespace, where all is true and they are not too long, and in any case of the API server's.
  // Where api_address ("https://10.77.0.1:6820") is not empty, that one is named at its own address: a node need not
  // lead to Services.
  Variables of(const std::string& ns, bool all, const std::string& api_address) const;

 private:
  struct OfService {
    std::shared_ptr<const Variables> all;  // null: they alone are too long
    std::size_t bytes = 0;
  };
  struct OfSpace {
    std::map<std::string, OfService> services;
    std::size_t bytes = 0;
  };
  void look(const Object& service, bool there);

  std::map<std::string, OfSpace> spaces_;
};

}  // namespace lockstep::kube
