// What single fields of a pod's tree say. The tree may be of any shape: what is not there, or of another type, says
// nothing.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/quantity.h"

namespace lockstep::kube {

namespace json = boost::json;

const json::value& spec_of(const json::object& pod);  // null where there is none
std::optional<std::int64_t> integer_in(const json::value& value, std::string_view key);
bool flag_in(const json::value& value, std::string_view key);
std::vector<std::string> texts_in(const json::value& value, std::string_view key);
// The elements of a list; none where it is no list.
const json::array& list_in(const json::value& value, std::string_view key);
std::optional<Quantity> quantity_in(const json::value& value, std::string_view key);

// All of a pod's containers of one list: "containers", "initContainers", "ephemeralContainers".
const json::array& containers_in(const json::object& pod, std::string_view list);
// Of any list; null: there is none of that name.
const json::value* container_named(const json::object& pod, std::string_view name);
// A sidecar is an init container that is always started again.
bool is_sidecar(const json::value& init_container);

// "Guaranteed", "Burstable" or "BestEffort". Source: kubernetes.io/docs/concepts/workloads/pods/pod-qos.
std::string_view qos_class(const json::object& pod);
// Of a system class: no node drives it out for want of room.
bool is_critical(const json::object& pod);

}  // namespace lockstep::kube
