#include "frontends/kube/server/selection.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/kinds/versions.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kSource = "source";  // of events

// What a field is that the object does not have: truths and counts are written out.
std::string absent(std::string_view path) {
  if (path == "spec.unschedulable" || path == "spec.hostNetwork")
    return "false";
  return path == "status.replicas" || path == "status.successful" ? "0" : "";
}

// The text of the field "status.phase" in a body; a number or a truth as Kubernetes compares them.
std::string field_of(const json::value& body, std::string_view path) {
  const std::string_view whole = path;
  const json::value* at = &body;
  while (at && !path.empty()) {
    const auto dot = path.find('.');
    at = member(*at, path.substr(0, dot));
    path = dot == path.npos ? std::string_view() : path.substr(dot + 1);
  }
  if (!at)
    return absent(whole);
  if (at->is_bool())
    return at->get_bool() ? "true" : "false";
  return is_number(*at) ? number_text(*at) : std::string(text_of(*at));
}

// Kinds that have fields of their own say it in other words than those that have none.
std::string unknown_field(const Kind& kind, const std::string& field) {
  if (!kind.selectable.empty())
    return "field label not supported: " + field;
  return format("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", quoted(field));
}

}  // namespace

Answered<Selection> selection_of(const Request& request) {
  auto labels = parse_label_selector(query_of(request.http(), "labelSelector"));
  if (!labels.ok())
    return Status::bad_request(labels.error().message);
  auto fields = parse_field_selector(query_of(request.http(), "fieldSelector"));
  if (!fields.ok())
    return Status::bad_request(fields.error().message);
  bool reads_body = false;
  for (FieldTerm& term : fields->terms) {
    if (term.field == "metadata.name" || term.field == "metadata.namespace")
      continue;
    reads_body = true;
    if (std::ranges::find(request.kind->selectable, term.field) == request.kind->selectable.end())
      return Status::bad_request(unknown_field(*request.kind, term.field));
    term.field = stored_path(request.kind->type, request.api_version, term.field);
  }
  Selection selection;
  selection.all = labels->everything() && fields->terms.empty() && request.target.name.empty();
  const auto by_name = [](const FieldSelector& fields, const Object& object) {
    return fields.matches([&](std::string_view field) -> std::optional<std::string_view> {
      return field == "metadata.name" ? std::string_view(object.meta.name) : std::string_view(object.meta.ns.get());
    });
  };
  selection.by_meta = [labels = std::move(*labels), fields = *fields, name = request.target.name, reads_body,
                       by_name](const Object& object) {
    if (!name.empty() && object.meta.name != name)
      return false;
    if (!labels.everything()) {
      const bool matches = labels.matches([&](std::string_view key) -> std::optional<std::string_view> {
        if (!object.meta.extra)
          return std::nullopt;
        const auto& all = object.meta.extra->labels;
        const auto at =
            std::ranges::lower_bound(all, key, {}, [](const auto& one) { return std::string_view(one.first); });
        return at != all.end() && at->first == key ? std::optional<std::string_view>(at->second) : std::nullopt;
      });
      if (!matches)
        return false;
    }
    return reads_body || fields.terms.empty() || by_name(fields, object);
  };
  if (!reads_body)
    return selection;
  selection.by_body = [visit = request.visit, converted = &request.converted, fields = std::move(*fields)](
                          const Object& object, const PodRecords* then) {
    const auto made = converted->find({object.meta.uid, object.meta.seq});
    json::value body = made != converted->end() ? json::value(made->second) : parse_own(object.body.get());
    if (object.type == kNodes) {
      const auto read = visit->read();
      if (const Node* node = read->tables.node(object.meta.name))
        show_node(body.as_object(), *node, read->now, wall_offset_of(*read));
    }
    if (object.type == kPods) {
      const auto read = visit->read();
      show_pod(body.as_object(), object, then ? *then : records_of_pod(read->tables, object), {},
               wall_offset_of(*read));
    }
    std::string held;
    return fields.matches([&](std::string_view field) -> std::optional<std::string_view> {
      if (field == "metadata.name")
        return object.meta.name;
      if (field == "metadata.namespace")
        return object.meta.ns.get();
      held = field_of(body, field == kSource ? "source.component" : field);
      if (field == kSource && held.empty())  // of those that newer clients wrote
        held = field_of(body, "reportingComponent");
      return held;
    });
  };
  return selection;
}

}  // namespace lockstep::kube
