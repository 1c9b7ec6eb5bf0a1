#include "frontends/kube/admission/limit_ranges.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <vector>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/quota.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kRanges = "limitranges", kLimitedPods = "pods", kLimitedClaims = "persistentvolumeclaims";
constexpr const char* kSaidBy = "kubernetes.io/limit-ranger";

Amounts amounts_at(const json::value& value, std::string_view name) {
  Amounts out;
  if (const json::object* amounts = member_object(value, name))
    for (const auto& [key, amount] : *amounts)
      if (const auto quantity = parse_quantity(text_of(amount)); quantity.ok())
        out[std::string(key)] = *quantity;
  return out;
}

// --- what is left open ---

json::object& object_at(json::object& object, std::string_view name) {
  json::value& value = object[name];
  return value.is_object() ? value.get_object() : value.emplace_object();
}

// The names of what was filled in.
std::vector<std::string> fill_in(json::object& container, const char* which, const json::object& defaults) {
  std::vector<std::string> out;
  json::object& amounts = object_at(object_at(container, "resources"), which);
  for (const auto& [name, amount] : defaults)
    if (!amounts.contains(name)) {
      amounts[name] = amount;
      out.emplace_back(name);
    }
  std::ranges::sort(out);
  return out;
}

struct Defaults {
  json::object requests, limits;  // of containers
};

Defaults defaults_of(const json::value& range) {
  Defaults out;
  for (const json::value& limit : list_in(part(range, "spec"), "limits")) {
    if (text_in(limit, "type") != "Container")
      continue;
    for (const auto& [field, into] : {std::pair{"defaultRequest", &out.requests}, std::pair{"default", &out.limits}})
      if (const json::object* amounts = member_object(limit, field))
        for (const auto& [name, amount] : *amounts) (*into)[name] = amount;
  }
  return out;
}

void default_containers(json::object& pod, const Defaults& defaults) {
  std::vector<std::string> said;
  json::value* spec = pod.if_contains("spec");
  if (!spec || !spec->is_object() || (defaults.requests.empty() && defaults.limits.empty()))
    return;
  for (const auto& [list, word] :
       {std::pair{"containers", "container"}, std::pair{"initContainers", "init container"}}) {
    json::value* containers = spec->get_object().if_contains(list);
    if (!containers || !containers->is_array())
      continue;
    for (json::value& one : containers->get_array()) {
      if (!one.is_object())
        continue;
      const std::string name = text_in(one, "name");
      for (const auto& [which, amounts, what] :
           {std::tuple{"requests", &defaults.requests, "request"}, std::tuple{"limits", &defaults.limits, "limit"}})
        if (const auto filled = fill_in(one.get_object(), which, *amounts); !filled.empty())
          said.push_back(format("{} {} for {} {}", join(filled, ", "), what, word, name));
    }
  }
  if (!said.empty())
    object_at(object_at(pod, "metadata"), "annotations")[kSaidBy] = "LimitRanger plugin set: " + join(said, "; ");
}

// --- bounds ---

class Bounds {
 public:
  Bounds(std::string type, std::vector<std::string>& faults) : type_(std::move(type)), faults_(faults) {}

  void check_all(const json::value& limit, const Amounts& requests, const Amounts& limits) {
    for (const auto& [name, bound] : amounts_at(limit, "min")) minimum(name, bound, requests, limits);
    for (const auto& [name, bound] : amounts_at(limit, "max")) maximum(name, bound, requests, limits);
    for (const auto& [name, bound] : amounts_at(limit, "maxLimitRequestRatio")) ratio(name, bound, requests, limits);
  }

  // Claims have requests alone.
  void check_requests(const json::value& limit, const Amounts& requests) {
    for (const auto& [name, bound] : amounts_at(limit, "min")) {
      const std::string head = format("minimum {} usage per {} is {}", name, type_, bound.text());
      if (const auto asked = requests.find(name); asked == requests.end())
        faults_.push_back(head + ".  No request is specified");
      else if (asked->second < bound)
        faults_.push_back(format("{}, but request is {}", head, asked->second.text()));
    }
    for (const auto& [name, bound] : amounts_at(limit, "max")) {
      const std::string head = format("maximum {} usage per {} is {}", name, type_, bound.text());
      if (const auto asked = requests.find(name); asked == requests.end())
        faults_.push_back(head + ".  No request is specified");
      else if (asked->second > bound)
        faults_.push_back(format("{}, but request is {}", head, asked->second.text()));
    }
  }

 private:
  void minimum(const std::string& name, const Quantity& bound, const Amounts& requests, const Amounts& limits) {
    const std::string head = format("minimum {} usage per {} is {}", name, type_, bound.text());
    const auto request = requests.find(name), limit = limits.find(name);
    if (request == requests.end())
      faults_.push_back(head + ".  No request is specified");
    else if (request->second < bound)
      faults_.push_back(format("{}, but request is {}", head, request->second.text()));
    else if (limit != limits.end() && limit->second < bound)
      faults_.push_back(format("{}, but limit is {}", head, limit->second.text()));
  }

  void maximum(const std::string& name, const Quantity& bound, const Amounts& requests, const Amounts& limits) {
    const std::string head = format("maximum {} usage per {} is {}", name, type_, bound.text());
    const auto request = requests.find(name), limit = limits.find(name);
    if (limit == limits.end())
      faults_.push_back(head + ".  No limit is specified");
    else if (limit->second > bound)
      faults_.push_back(format("{}, but limit is {}", head, limit->second.text()));
    else if (request != requests.end() && request->second > bound)
      faults_.push_back(format("{}, but request is {}", head, request->second.text()));
  }

  void ratio(const std::string& name, const Quantity& bound, const Amounts& requests, const Amounts& limits) {
    const std::string head = format("{} max limit to request ratio per {} is {}", name, type_, bound.text());
    const auto request = requests.find(name), limit = limits.find(name);
    if (request == requests.end() || request->second.sign() == 0)
      return faults_.push_back(head + ", but no request is specified or request is 0");
    if (limit == limits.end() || limit->second.sign() == 0)
      return faults_.push_back(head + ", but no limit is specified or limit is 0");
    const double found = limit->second.approximate() / request->second.approximate();
    if (found > bound.approximate())
      faults_.push_back(format("{}, but provided ratio is {:.6f}", head, found));
  }

  std::string type_;
  std::vector<std::string>& faults_;
};

void check_pod(const json::value& limit, const json::object& pod, std::vector<std::string>& faults) {
  const std::string type = text_in(limit, "type");
  Bounds bounds(type, faults);
  if (type == "Container")
    for (const char* list : {"containers", "initContainers"})
      for (const json::value& one : containers_in(pod, list))
        bounds.check_all(limit, amounts_at(part(one, "resources"), "requests"),
                         amounts_at(part(one, "resources"), "limits"));
  if (type == "Pod")
    bounds.check_all(limit, pod_sums(pod, "requests"), pod_sums(pod, "limits"));
}

void check_claim(const json::value& limit, const json::object& claim, std::vector<std::string>& faults) {
  if (text_in(limit, "type") == "PersistentVolumeClaim")
    Bounds("PersistentVolumeClaim", faults)
        .check_requests(limit, amounts_at(part(part(claim, "spec"), "resources"), "requests"));
}

}  // namespace

std::optional<Status> apply_limit_ranges(const Tables& tables, std::string_view type, json::object& tree) {
  if (type != kLimitedPods && type != kLimitedClaims)
    return std::nullopt;
  const std::string ns = text_in(part(tree, "metadata"), "namespace"), name = text_in(part(tree, "metadata"), "name");
  const std::string ranges(kRanges);
  std::vector<json::value> bodies;
  for (auto at = tables.objects.lower_bound({ranges, ns, ""});
       at != tables.objects.end() && std::get<0>(at->first) == ranges && std::get<1>(at->first) == ns; ++at)
    bodies.push_back(parse_own(at->second->body.get()));
  if (type == kLimitedPods)
    for (const json::value& range : bodies) default_containers(tree, defaults_of(range));
  std::vector<std::string> faults;
  for (const json::value& range : bodies)
    for (const json::value& limit : list_in(part(range, "spec"), "limits"))
      type == kLimitedPods ? check_pod(limit, tree, faults) : check_claim(limit, tree, faults);
  if (faults.empty())
    return std::nullopt;
  return Status::forbidden({"", std::string(type)}, name,
                           faults.size() == 1 ? faults.front() : "[" + join(faults, ", ") + "]");
}

}  // namespace lockstep::kube
