// QuotaLedger: counts new objects in the quotas of their namespace, several of them in one commit. What is written
// rests on the versions that were read, so that no quota is ever overrun.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/kinds/quota.h"
#include "model/command.h"
#include "model/tables.h"

namespace lockstep::kube {

class QuotaLedger {
 public:
  QuotaLedger(const Tables& tables, const std::string& ns);

  // Counts the object, in the place of its older version where there is one; or says why there is no room, in
  // Kubernetes' words, and counts nothing.
  std::optional<std::string> count(std::string_view type, const json::object& tree, const json::object* old = nullptr);
  bool any() const { return !lines_.empty(); }
  // The quotas as counted since the last call, to be committed with what was counted.
  std::vector<CommandBody> take();

 private:
  struct Line {
    Ref<Object> quota;
    json::object body;
    Amounts bounds, used;
    bool touched = false;
  };
  std::vector<Line> lines_;
};

}  // namespace lockstep::kube
