#include "frontends/kube/kinds/pod_fields.h"

#include <algorithm>
#include <map>

#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kContainerLists[] = {"containers", "initContainers", "ephemeralContainers"};

}  // namespace

const json::value& spec_of(const json::object& pod) { return part(pod, "spec"); }

std::optional<std::int64_t> integer_in(const json::value& value, std::string_view key) {
  const json::value& number = part(value, key);
  if (number.is_int64())
    return number.get_int64();
  if (number.is_uint64())
    return static_cast<std::int64_t>(std::min<std::uint64_t>(number.get_uint64(), INT64_MAX));
  return std::nullopt;
}

bool flag_in(const json::value& value, std::string_view key) {
  const json::value& flag = part(value, key);
  return flag.is_bool() && flag.get_bool();
}

const json::array& list_in(const json::value& value, std::string_view key) {
  static const json::array none;
  const json::array* list = member_array(value, key);
  return list ? *list : none;
}

std::vector<std::string> texts_in(const json::value& value, std::string_view key) {
  std::vector<std::string> out;
  for (const json::value& one : list_in(value, key)) out.emplace_back(text_of(one));
  return out;
}

std::optional<Quantity> quantity_in(const json::value& value, std::string_view key) {
  const json::value& amount = part(value, key);
  if (amount.is_null())
    return std::nullopt;
  const auto read = parse_quantity(is_number(amount) ? number_text(amount) : std::string(text_of(amount)));
  return read.ok() ? std::optional(*read) : std::nullopt;
}

const json::array& containers_in(const json::object& pod, std::string_view list) { return list_in(spec_of(pod), list); }

const json::value* container_named(const json::object& pod, std::string_view name) {
  for (const std::string_view list : kContainerLists)
    for (const json::value& one : containers_in(pod, list))
      if (text_of(part(one, "name")) == name)
        return &one;
  return nullptr;
}

bool is_sidecar(const json::value& init_container) {
  return text_of(part(init_container, "restartPolicy")) == "Always";
}

std::string_view qos_class(const json::object& pod) {
  bool any = false, guaranteed = true;
  for (const std::string_view list : {kContainerLists[0], kContainerLists[1]})
    for (const json::value& one : containers_in(pod, list)) {
      const json::value& resources = part(one, "resources");
      for (const char* what : {"cpu", "memory"}) {
        const auto limit = quantity_in(part(resources, "limits"), what);
        const auto request = quantity_in(part(resources, "requests"), what);
        const bool limits = limit && limit->sign() > 0, requests = request && request->sign() > 0;
        any = any || limits || requests;
        guaranteed = guaranteed && limits && (!requests || *limit == *request);
      }
    }
  return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

bool is_critical(const json::object& pod) {
  constexpr std::int64_t kSystemPriority = 2'000'000'000;
  return integer_in(spec_of(pod), "priority").value_or(0) >= kSystemPriority;
}

}  // namespace lockstep::kube
