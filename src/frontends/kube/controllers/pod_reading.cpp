#include "frontends/kube/controllers/pod_reading.h"

#include <algorithm>

#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {

namespace {

WallTime time_in(const json::value& value, std::string_view key) {
  return parse_timestamp(text_in(value, key)).value_or(WallTime{});
}

PodReading::Phase phase_of(std::string_view word) {
  using enum PodReading::Phase;
  return word == "Running"     ? kRunning
         : word == "Succeeded" ? kSucceeded
         : word == "Failed"    ? kFailed
         : word == "Unknown"   ? kUnknown
                               : kPending;
}

bool is_sidecar(const json::value& spec, std::string_view name) {
  const json::array* all = member_array(spec, "initContainers");
  return all && std::ranges::any_of(*all, [&](const json::value& one) {
           return text_in(one, "name") == name && text_in(one, "restartPolicy") == "Always";
         });
}

void read_containers(PodReading& out, const json::value& spec, const json::value& status) {
  for (const auto& [list, init] : {std::pair{"containerStatuses", false}, {"initContainerStatuses", true}}) {
    const json::array* all = member_array(status, list);
    if (!all)
      continue;
    for (const json::value& one : *all) {
      PodReading::Container container{text_in(one, "name"), init, whole_in(one, "restartCount", 0), {}, {}};
      if (const json::object* end = member_object(part(one, "state"), "terminated")) {
        container.exit_code = whole_in(*end, "exitCode", 0);
        container.ended = time_in(part(one, "state").at("terminated"), "finishedAt");
      }
      if (!init)
        out.restarts = std::max(out.restarts, container.restarts);
      else if (is_sidecar(spec, container.name))
        out.sidecar_restarts = std::max(out.sidecar_restarts, container.restarts);
      out.containers.push_back(std::move(container));
    }
  }
}

}  // namespace

PodReading read_pod(Ref<Object> pod, const Tables& tables) {
  const json::object tree = pod_as_shown(tables, *pod);
  const json::value& spec = part(tree, "spec");
  const json::value& status = part(tree, "status");
  PodReading out;
  out.object = std::move(pod);
  out.phase = phase_of(text_in(status, "phase"));
  out.node = text_in(spec, "nodeName");
  out.created = time_in(part(tree, "metadata"), "creationTimestamp");
  out.started = time_in(status, "startTime");
  out.placed = out.created;
  out.reason = text_in(status, "reason");
  const std::string policy = text_in(spec, "restartPolicy");
  out.restarts_on_failure = policy == "OnFailure";
  out.restarts_never = policy == "Never";
  out.address = text_in(status, "podIP");
  out.host_name = text_in(spec, "hostname");
  out.subdomain = text_in(spec, "subdomain");
  if (const json::array* containers = member_array(spec, "containers"))
    for (const json::value& container : *containers)
      if (const json::array* ports = member_array(container, "ports"))
        for (const json::value& port : *ports) {
          const std::string protocol = text_in(port, "protocol");
          out.ports.push_back(
              {text_in(port, "name"), protocol.empty() ? "TCP" : protocol, whole_in(port, "containerPort", 0)});
        }
  if (const json::array* conditions = member_array(status, "conditions"))
    for (const json::value& one : *conditions) {
      out.conditions.push_back({text_in(one, "type"), text_in(one, "status")});
      if (out.conditions.back().type == "PodScheduled" && out.conditions.back().status == "True")
        out.placed = std::max(out.created, time_in(one, "lastTransitionTime"));
      if (out.conditions.back().type != "Ready")
        continue;
      out.ready = out.conditions.back().status == "True";
      out.ready_since = time_in(one, "lastTransitionTime");
    }
  read_containers(out, spec, status);
  return out;
}

}  // namespace lockstep::kube
