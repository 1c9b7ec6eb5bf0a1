// A pod's containers as a sandbox has them. Source: kubernetes.io/docs/concepts/workloads/pods.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/sandbox.h"

namespace lockstep::kube {

namespace json = boost::json;

// Init containers and sidecars in their order, then the main ones.
std::vector<SandboxContainer> containers_of_pod(const json::object& pod);

// Those put beside them while it runs ("ephemeralContainers"), in their order.
std::vector<SandboxContainer> added_containers_of(const json::object& pod);

// What a container asks of cores and memory, as a SandboxContainer has it.
struct SandboxAmounts {
  std::uint32_t milli_cores = 0, cpu_weight = 0;
  std::uint64_t memory_bytes = 0;
};
SandboxAmounts amounts_asked(const json::value& container);

// The port's number, where a probe or a hook names one of the container's ports.
std::uint16_t port_of(const json::value& container, const json::value& port);

}  // namespace lockstep::kube
