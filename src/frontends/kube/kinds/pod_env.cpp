#include "frontends/kube/kinds/pod_env.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

// `metadata.labels['a/b']`: the key, where the path is of that map.
std::optional<std::string_view> key_in(std::string_view path, std::string_view map) {
  if (!path.starts_with(map) || !path.substr(map.size()).starts_with("['") || !path.ends_with("']"))
    return std::nullopt;
  return path.substr(map.size() + 2, path.size() - map.size() - 4);
}

// As files of the downward API have a whole map: a line for each, sorted by key, values quoted.
std::string lines_of(const json::value& pairs) {
  Variables sorted;
  if (const json::object* object = pairs.if_object())
    for (const auto& [key, value] : *object) sorted[std::string(key)] = text_of(value);
  std::string out;
  for (const auto& [key, value] : sorted) {
    out += out.empty() ? "" : "\n";
    out += key + "=\"";
    for (const char c : value) {
      if (c == '"' || c == '\\')
        out += '\\';
      if (c == '\n')
        out += "\\n";
      else if (c == '\t')
        out += "\\t";
      else if (c == '\r')
        out += "\\r";
      else
        out += c;
    }
    out += '"';
  }
  return out;
}

}  // namespace

std::optional<std::string> expanded(std::string_view text, const Variables& known) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (out.size() > kVariableBytesMax)
      return std::nullopt;
    if (text[i] != '$' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    if (text[i + 1] == '$') {
      out += '$';
      ++i;
      continue;
    }
    const std::size_t end = text[i + 1] == '(' ? text.find(')', i) : text.npos;
    if (end == text.npos) {
      out += text[i];
      continue;
    }
    const std::string_view name = text.substr(i + 2, end - i - 2);
    if (const auto at = known.find(name); at != known.end())
      out += at->second;
    else
      out += text.substr(i, end - i + 1);
    i = end;
  }
  return out.size() > kVariableBytesMax ? std::nullopt : std::optional(std::move(out));
}

std::optional<std::string> field_of_pod(const json::object& pod, std::string_view path) {
  const json::value& metadata = part(pod, "metadata");
  for (const char* map : {"labels", "annotations"})
    if (const auto key = key_in(path, std::string("metadata.") + map))
      return std::string(text_of(part(part(metadata, map), *key)));
  if (path == "metadata.labels" || path == "metadata.annotations")
    return lines_of(part(metadata, path.substr(9)));
  for (const std::string_view root : {"metadata", "spec", "status"}) {
    if (!path.starts_with(root) || path.size() <= root.size() || path[root.size()] != '.')
      continue;
    const json::value& value = part(part(pod, root), path.substr(root.size() + 1));
    return value.is_string() ? std::optional(std::string(text_of(value))) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> resource_of_container(const json::value& container, const json::value& reference,
                                                 const NodeAmounts& node) {
  const std::string resource = text_in(reference, "resource");
  const auto dot = resource.find('.');
  if (dot == resource.npos)
    return std::nullopt;
  const std::string which = resource.substr(0, dot), name = resource.substr(dot + 1);
  const json::value& resources = part(container, "resources");
  auto amount = quantity_in(part(resources, which), name);
  if (which == "limits" && (!amount || amount->sign() == 0))
    amount = name == "cpu"                 ? Quantity(node.cores, Quantity::Format::kDecimal)
             : name == "memory"            ? Quantity(node.memory_bytes, Quantity::Format::kBinary)
             : name == "ephemeral-storage" ? Quantity(node.disk_bytes, Quantity::Format::kBinary)
                                           : Quantity();
  if (!amount)
    amount = Quantity();
  auto divisor = quantity_in(reference, "divisor");
  if (!divisor || divisor->sign() <= 0)
    divisor = Quantity(1);
  // Rounded up, as kubelet does: processors in thousandths, all else in whole units.
  if (name == "cpu") {
    const std::int64_t milli = std::max<std::int64_t>(1, divisor->thousandths());
    return std::to_string((amount->thousandths() + milli - 1) / milli);
  }
  const std::int64_t unit = std::max<std::int64_t>(1, divisor->whole());
  return std::to_string(amount->whole() / unit + (amount->whole() % unit != 0));
}

std::vector<std::pair<std::string, std::string>> plain_variables(const json::object& pod,
                                                                 const json::value& container) {
  std::vector<std::pair<std::string, std::string>> out;
  Variables known;
  std::map<std::string, std::size_t, std::less<>> places;
  std::size_t bytes = 0;
  for (const json::value& one : list_in(container, "env")) {
    const std::string name = text_in(one, "name");
    std::optional<std::string> value;
    if (part(one, "valueFrom").is_null())
      value = expanded(text_in(one, "value"), known);
    else if (const json::value& field = part(part(one, "valueFrom"), "fieldRef"); field.is_object())
      value = field_of_pod(pod, text_in(field, "fieldPath"));
    if (!value || (bytes += name.size() + value->size()) > kVariablesOfPodMax)
      continue;  // the node is told why the container cannot start (server/pod_files)
    known[name] = *value;
    const auto [place, is_new] = places.emplace(name, out.size());
    if (is_new)
      out.emplace_back(name, std::move(*value));
    else
      out[place->second].second = std::move(*value);
  }
  return out;
}

}  // namespace lockstep::kube
