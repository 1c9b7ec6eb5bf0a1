// Kinds of custom resources, as their definitions come, change and go.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "frontends/kube/server/kinds.h"
#include "routes/front_end.h"

namespace lockstep::kube {

class CustomKinds final : public FrontReader {
 public:
  CustomKinds(Kinds& kinds, std::function<std::string(std::string_view)> sha256_hex)
      : kinds_(kinds), sha256_hex_(std::move(sha256_hex)) {}

  void begin(const Tables& tables) override;
  void change(const Tables& before, const Change& change) override;

 private:
  void take(const Object& definition, bool there);

  Kinds& kinds_;
  std::function<std::string(std::string_view)> sha256_hex_;
};

}  // namespace lockstep::kube
