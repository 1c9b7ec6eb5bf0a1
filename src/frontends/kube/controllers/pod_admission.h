// PodAdmission: what webhooks say of pods that controllers want to make. Asking takes its time, and controllers wait
// for nobody: they ask, and find the answer when they look again.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "base/time.h"
#include "frontends/kube/machinery/status.h"

namespace lockstep::kube {

namespace json = boost::json;

struct PodVerdict {
  std::optional<Status> refused;
  std::optional<json::object> changed;  // the pod as webhooks have made it
};

class PodAdmission {
 public:
  virtual ~PodAdmission() = default;

  struct Question {
    std::string ns;
    std::string key;          // equal for pods that are alike, of one owner
    const json::object& pod;  // without a name
    std::size_t waiting = 0;  // pods alike that found no answer in this look
  };
  struct Told {
    std::optional<PodVerdict> verdict;  // nothing: it is being asked, or will be when others were
    Duration again;                     // then: how long not to look
  };
  // Each verdict is told once. Called from any thread.
  virtual Told take(const Question& question, Instant now) = 0;
};

}  // namespace lockstep::kube
