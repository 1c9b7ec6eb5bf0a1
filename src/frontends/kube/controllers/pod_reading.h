// PodReading: what controllers know of a pod: how far it has come, where, since when. One place says how that follows
// from the pod's object and what the cluster knows of its work. Read once for each version of a pod.
#pragma once

#include <algorithm>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/records.h"

namespace lockstep {
struct Tables;
}

namespace lockstep::kube {

namespace json = boost::json;

struct PodReading {
  enum class Phase : unsigned char { kPending, kRunning, kSucceeded, kFailed, kUnknown };
  struct Container {
    std::string name;
    bool init = false;
    std::int64_t restarts = 0;
    std::optional<std::int64_t> exit_code;  // of its end, where it has ended for good
    WallTime ended;
  };
  struct Condition {
    std::string type, status;
  };
  struct Port {
    std::string name, protocol;
    std::int64_t number = 0;
  };

  Ref<Object> object;
  Phase phase = Phase::kPending;
  std::string node;  // "" = none yet
  bool ready = false;
  WallTime ready_since;  // of the condition, whatever it says; 0 = it does not say
  WallTime created, started;
  WallTime placed;  // since when it has its node; of one that was made for it, since it was made
  std::int64_t restarts = 0, sidecar_restarts = 0;  // the most of any container
  bool restarts_on_failure = false, restarts_never = false;
  std::string reason;  // of the status: "Evicted"
  std::vector<Container> containers;
  std::vector<Condition> conditions;
  std::string address;               // "" = none yet
  std::string host_name, subdomain;  // as the spec says
  std::vector<Port> ports;           // of its containers

  bool deleting() const { return object->meta.extra && object->meta.extra->deleting; }
  bool ended() const { return phase == Phase::kSucceeded || phase == Phase::kFailed; }
  // Its node did not take it, or could not give it what it needs: no container of it has ever run.
  bool refused() const {
    return phase == Phase::kFailed &&
           std::ranges::none_of(containers, [](const Container& one) { return one.exit_code || one.restarts > 0; });
  }
  // Neither ended nor being deleted.
  bool active() const { return !ended() && !deleting(); }
  // Ready for at least that long.
  bool available(Duration at_least, WallTime now) const {
    return ready && (at_least.us == 0 || (ready_since && ready_since.us + at_least.us <= now.us));
  }
};

PodReading read_pod(Ref<Object> pod, const Tables& tables);

}  // namespace lockstep::kube
