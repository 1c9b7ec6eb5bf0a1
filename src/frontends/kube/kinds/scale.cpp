#include "frontends/kube/kinds/scale.h"

#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"

namespace lockstep::kube {

namespace {

const json::value* find_at(const json::object& tree, const std::vector<std::string>& path) {
  const json::object* inside = &tree;
  const json::value* found = nullptr;
  for (const std::string& name : path) {
    found = inside ? inside->if_contains(name) : nullptr;
    if (!found)
      return nullptr;
    inside = found->if_object();
  }
  return found;
}

std::string selector_text(const json::value& value) {
  if (value.is_string())
    return std::string(text_of(value));
  const json::object* selector = value.if_object();
  if (!selector)
    return {};
  if (!selector->contains("matchLabels") && !selector->contains("matchExpressions"))
    return select_labels(*selector).text();
  const auto read = read_label_selector(value);
  return read.ok() ? read->text() : std::string();
}

json::value number_or_zero(const json::value* value) { return value && is_number(*value) ? *value : json::value(0); }

}  // namespace

const ScalePaths& built_in_scale() {
  static const ScalePaths paths{{"spec", "replicas"}, {"status", "replicas"}, {"spec", "selector"}};
  return paths;
}

json::object scale_of(const json::object& tree, const ScalePaths& paths) {
  json::object metadata;
  if (const json::value* own = tree.if_contains("metadata"); own && own->is_object())
    for (const char* name : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"})
      if (const json::value* value = own->get_object().if_contains(name))
        metadata[name] = *value;
  json::object status{{"replicas", number_or_zero(find_at(tree, paths.status_replicas))}};
  if (const json::value* selector = paths.selector.empty() ? nullptr : find_at(tree, paths.selector))
    if (const std::string text = selector_text(*selector); !text.empty())
      status["selector"] = text;
  json::object spec;  // none is not said
  if (const json::value count = number_or_zero(find_at(tree, paths.spec_replicas)); number_of(count) != 0)
    spec["replicas"] = count;
  return {{"kind", "Scale"},
          {"apiVersion", "autoscaling/v1"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)},
          {"status", std::move(status)}};
}

void put_scale(json::object& tree, const json::object& scale, const ScalePaths& paths) {
  const json::value* wanted = find_at(scale, built_in_scale().spec_replicas);
  json::object* inside = &tree;
  const std::vector<std::string>& names = paths.spec_replicas;
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    json::value& next = (*inside)[names[i]];
    inside = next.is_object() ? &next.get_object() : &next.emplace_object();
  }
  if (!names.empty())
    (*inside)[names.back()] = number_or_zero(wanted);
}

}  // namespace lockstep::kube
