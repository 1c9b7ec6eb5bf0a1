#include "frontends/kube/server/measures.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/selection.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kRowsOfPiece = 100;

struct Measured {
  std::int64_t cpu_nanos = 0, memory = 0;  // bytes
};

json::object usage_of(const Measured& all) {
  return {{"cpu", format("{}n", all.cpu_nanos)}, {"memory", format("{}Ki", all.memory / 1024)}};
}

// "10.05s", as Go writes a duration.
std::string window_text(Duration window) {
  std::string text = format("{:.3f}", static_cast<double>(window.us) / 1e6);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.'))
    text.pop_back();
  return text + "s";
}

struct Shown {
  json::object tree;
  Measured sum;
  Duration window;
};

json::object metadata_of_measure(const Request& request, const Object& object, Duration offset) {
  const auto read = request.visit->read();
  json::object out{{"name", object.meta.name}};
  if (request.kind->namespaced)
    out["namespace"] = object.meta.ns.get();
  out["creationTimestamp"] = time_text(read->now, offset);
  if (object.meta.extra && !object.meta.extra->labels.empty()) {
    json::object labels;
    for (const auto& [key, value] : object.meta.extra->labels) labels[key] = value;
    out["labels"] = std::move(labels);
  }
  return out;
}

json::object head_of_measure(const Request& request, const Object& object, Instant at, Duration window) {
  const auto read = request.visit->read();
  return {{"kind", request.kind->kind},
          {"apiVersion", request.api_version},
          {"metadata", metadata_of_measure(request, object, read->wall_offset)},
          {"timestamp", time_text(at, read->wall_offset)},
          {"window", window_text(window)}};
}

std::optional<Shown> measured_node(const Request& request, const Object& object) {
  const auto read = request.visit->read();
  const Node* node = read->tables.node(object.meta.name);
  const NodeMeasures* measures = node && read->live ? read->live->node(node->id) : nullptr;
  if (!measures || measures->window.us == 0)
    return std::nullopt;
  const Measured sum{measures->cpu_nanos, measures->memory_used_mb << 20};
  Shown out{head_of_measure(request, object, measures->at, measures->window), sum, measures->window};
  out.tree["usage"] = usage_of(sum);
  return out;
}

std::optional<Shown> measured_pod(const Request& request, const Object& object) {
  const auto read = request.visit->read();
  const PodRecords records = records_of_pod(read->tables, object);
  const auto* tasks = records.job && records.node && read->live ? read->live->containers(records.node->id) : nullptr;
  if (!tasks)
    return std::nullopt;
  Shown out;
  json::array containers;
  Instant at;
  for (auto task = tasks->lower_bound({records.job->id, 0, {}});
       task != tasks->end() && task->first.job == records.job->id; ++task)
    for (const ContainerUse& use : task->second) {
      containers.push_back({{"name", use.container}, {"usage", usage_of({use.cpu_nanos, use.memory})}});
      out.sum.cpu_nanos += use.cpu_nanos;
      out.sum.memory += use.memory;
      out.window = use.window;
      at = use.at;
    }
  if (containers.empty())
    return std::nullopt;
  out.tree = head_of_measure(request, object, at, out.window);
  out.tree["containers"] = std::move(containers);
  return out;
}

bool of_nodes(const Request& request) { return request.kind->plural == kNodes; }

std::optional<Shown> measured_object(const Request& request, const Object& object) {
  return of_nodes(request) ? measured_node(request, object) : measured_pod(request, object);
}

json::object row_of(Shown one) {
  return {{"cells", json::array{text_in(part(one.tree, "metadata"), "name"),
                                format("{}m", (one.sum.cpu_nanos + 999'999) / 1'000'000),
                                format("{}Mi", one.sum.memory >> 20), window_text(one.window)}},
          {"object", std::move(one.tree)}};
}

json::array columns_of_measures() {
  json::array out;
  for (const char* name : {"Name", "CPU", "Memory", "Window"})
    out.push_back({{"name", name},
                   {"type", "string"},
                   {"format", name[0] == 'N' ? "name" : ""},
                   {"description", ""},
                   {"priority", 0}});
  return out;
}

bool as_table(const Request& request) { return request.accepted.form == Accepted::Form::kTable; }

json::object table_of(const Request& request, json::array rows) {
  return {{"kind", "Table"},
          {"apiVersion", "meta.k8s.io/" + request.accepted.version},
          {"metadata", json::object()},
          {"columnDefinitions", columns_of_measures()},
          {"rows", std::move(rows)}};
}

void list_measured(const Asked& request) {
  const auto selection = selection_of(*request);
  if (!selection.ok())
    return answer_status(*request, selection.error());
  const auto read = request->visit->read();
  const std::string type(of_nodes(*request) ? kNodes : kPods);
  std::vector<Ref<Object>> objects;
  for (auto at = read->tables.objects.lower_bound({type, request->target.ns, ""});
       at != read->tables.objects.end() && std::get<0>(at->first) == type &&
       (request->target.ns.empty() || std::get<1>(at->first) == request->target.ns);
       ++at)
    if (selection->keeps(*at->second))
      objects.push_back(at->second);
  PageReply reply{200, "application/json", "", {}};
  if (as_table(*request)) {
    reply.body = json::serialize(table_of(*request, {}));
    reply.body.resize(reply.body.size() - 2);  // of "]}"
  } else {
    reply.body = format(R"({{"kind":"{}","apiVersion":"{}","metadata":{{}},"items":[)", request->kind->list_kind,
                        request->api_version);
  }
  reply.more = [request, objects = std::move(objects), done = std::size_t{0}, any = false](std::string& out) mutable {
    for (std::size_t i = 0; i < kRowsOfPiece && done < objects.size(); ++i, ++done) {
      auto shown = measured_object(*request, *objects[done]);
      if (!shown)
        continue;
      out += std::exchange(any, true) ? "," : "";
      if (!as_table(*request))  // the list says what they are
        for (const char* said : {"kind", "apiVersion"}) shown->tree.erase(said);
      out += json::serialize(as_table(*request) ? row_of(std::move(*shown)) : std::move(shown->tree));
    }
    if (done < objects.size())
      return true;
    out += "]}";
    return false;
  };
  request->visit->write(std::move(reply));
}

}  // namespace

std::vector<Kind> measured_kinds() {
  std::vector<Kind> out;
  for (const bool nodes : {true, false}) {
    Kind kind;
    kind.group = kMeasuresGroup;
    kind.version = "v1beta1";
    kind.kind = nodes ? "NodeMetrics" : "PodMetrics";
    kind.plural = nodes ? "nodes" : "pods";
    kind.list_kind = kind.kind + "List";
    kind.namespaced = !nodes;
    kind.verbs = {"get", "list"};
    kind.type = format("{}.{}", kind.plural, kMeasuresGroup);
    out.push_back(std::move(kind));
  }
  return out;
}

bool is_measured(const Kind& kind) { return kind.group == kMeasuresGroup; }

void answer_measured(const Asked& request) {
  const Target& target = request->target;
  if (target.verb == "list")
    return list_measured(request);
  if (target.verb != "get" || !target.subresource.empty())
    return answer_status(*request, Status::method_not_allowed(request->resource(), target.verb));
  const auto read = request->visit->read();
  const auto at = read->tables.objects.find({std::string(of_nodes(*request) ? kNodes : kPods), target.ns, target.name});
  auto shown = at == read->tables.objects.end() ? std::nullopt : measured_object(*request, *at->second);
  if (!shown) {
    const Qualified missing{std::string(kMeasuresGroup), of_nodes(*request) ? "nodemetrics" : "podmetrics"};
    return answer_status(*request,
                         Status::not_found(missing, target.ns.empty() ? target.name : target.ns + "/" + target.name));
  }
  if (as_table(*request))
    return answer_json(*request, json::serialize(table_of(*request, {row_of(std::move(*shown))})));
  answer_json(*request, json::serialize(shown->tree));
}

}  // namespace lockstep::kube
