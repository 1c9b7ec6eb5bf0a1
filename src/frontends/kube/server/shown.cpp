#include "frontends/kube/server/shown.h"

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/columns.h"
#include "frontends/kube/kinds/node_lease.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/kinds/versions.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/server/conversion.h"
#include "frontends/kube/server/pods.h"

namespace lockstep::kube {

namespace {

json::object metadata_of(const Request& request, const Object& object, Seq seq, const PodRecords* then) {
  json::object tree = shown_tree(request, object, {}, then);
  json::object metadata = std::move(tree["metadata"].as_object());
  if (seq)
    metadata["resourceVersion"] = std::to_string(seq);
  return {{"kind", "PartialObjectMetadata"},
          {"apiVersion", "meta.k8s.io/" + request.accepted.version},
          {"metadata", std::move(metadata)}};
}

bool is_going(const Object& object) { return object.meta.extra && object.meta.extra->deleting; }

// A namespace's own finalizer is shown in its spec alone (kinds/namespaces.cpp).
void hide_finalizer(json::object& metadata) {
  const json::array* all = member_array(metadata, "finalizers");
  if (!all)
    return;
  json::array others;
  for (const json::value& one : *all)
    if (text_of(one) != "kubernetes")
      others.push_back(one);
  if (others.empty())
    metadata.erase("finalizers");
  else
    metadata["finalizers"] = std::move(others);
}

WallTime wall_of(const Request& request) {
  const auto read = request.visit->read();
  return WallTime{(read->now + wall_offset_of(*read)).us};
}

json::array columns_text(const std::vector<Column>& columns) {
  json::array out;
  for (const Column& column : columns)
    out.push_back({{"name", column.name},
                   {"type", column.type},
                   {"format", column.format},
                   {"description", column.description},
                   {"priority", column.priority}});
  return out;
}

}  // namespace

namespace {

// In the request's version: as a webhook made it, or as it was sent a moment ago. The metadata are the record's.
void put_version(const Request& request, const Object& object, json::object& tree) {
  tree.erase(kVersionNote);
  if (!is_converted_by_webhook(*request.kind) || stored_version(*request.kind, object) == request.kind->version)
    return;
  const auto made = request.converted.find({object.meta.uid, object.meta.seq});
  const json::object* from = made != request.converted.end() ? &made->second
                             : request.written               ? &*request.written
                                                             : nullptr;
  if (!from)
    return;
  json::object out{{"kind", tree["kind"]}, {"apiVersion", tree["apiVersion"]}};
  out["metadata"] = tree["metadata"];
  for (const auto& [key, value] : *from)
    if (key != "kind" && key != "apiVersion" && key != "metadata")
      out[key] = value;
  if (made != request.converted.end())
    for (const char* own : {"labels", "annotations"}) {
      if (const json::value* value = member(part(*from, "metadata"), own))
        out["metadata"].as_object()[own] = *value;
      else
        out["metadata"].as_object().erase(own);
    }
  tree = std::move(out);
}

}  // namespace

bool shows_records(const Object& object) {
  return object.type == kNodes || object.type == kPods || is_node_lease(object);
}

json::object shown_tree(const Request& request, const Object& object, json::storage_ptr storage,
                        const PodRecords* then) {
  const auto read = request.visit->read();
  const Duration offset = wall_offset_of(*read);
  json::object tree = plain_tree(request, object, WallTime{(read->now + offset).us}, offset, std::move(storage));
  if (object.type == kNodes)
    if (const Node* node = read->tables.node(object.meta.name))
      show_node(tree, *node, read->now, wall_offset_of(*read));
  if (is_node_lease(object))
    if (const Node* node = read->tables.node(object.meta.name))
      show_lease(tree, *node, read->now, wall_offset_of(*read));
  if (object.type == kPods)
    show_records(request, object, tree, then);
  return tree;
}

json::object plain_tree(const Request& request, const Object& object, WallTime now, Duration wall_offset,
                        json::storage_ptr storage) {
  json::object tree = tree_of(object, request.shown_as(), wall_offset, std::move(storage));
  if (request.kind->custom && request.kind->custom->notes_version)
    put_version(request, object, tree);
  if (object.type != kPods && is_going(object))
    tree["metadata"].as_object()["deletionGracePeriodSeconds"] = 0;
  if (object.type == kNamespaces)
    hide_finalizer(tree["metadata"].as_object());
  from_stored(object.type, request.api_version, tree);
  if (request.kind->custom && request.kind->custom->has_defaults)
    fill_defaults(tree, *request.kind->schema, now);
  if (request.kind->custom)  // also of one that was stored or converted in another order
    for (auto& [name, value] : tree)
      if (json::object* part = value.if_object(); part && name != "metadata")
        sort_members(*part);
  return tree;
}

namespace {

// Trees that are written out at once: what they lie in is given back whole.
constexpr std::size_t kScratchBytes = 16 << 10;

json::object tree_at(const Request& request, const Object& object, Seq seq, const PodRecords* then = nullptr) {
  json::object tree = shown_tree(request, object, {}, then);
  if (is_scale(request))
    tree = scale_of(tree, scale_paths(request));
  if (seq)
    tree["metadata"].as_object()["resourceVersion"] = std::to_string(seq);
  return tree;
}

// In an object's place: what cannot be encoded says so to its reader.
std::string encoded(const json::object& tree) {
  auto bytes = encode_protobuf(tree);
  if (!bytes.ok())
    bytes = encode_protobuf(Status::internal("the object has no protobuf form: " + bytes.error().message).body());
  return std::move(*bytes);
}

void append_tree(std::string& out, const Request& request, const Object& object, Seq seq, const PodRecords* then) {
  unsigned char scratch[kScratchBytes];
  json::monotonic_resource storage(scratch);
  json::object tree = shown_tree(request, object, &storage, then);
  if (seq)
    tree["metadata"].as_object()["resourceVersion"] = std::to_string(seq);
  out += json::serialize(tree);
}

}  // namespace

void append_shown(std::string& out, const Request& request, const Object& object, Seq seq, const PodRecords* then) {
  if (request.accepted.protobuf)
    out += encoded(tree_at(request, object, seq, then));
  else if (request.accepted.form == Accepted::Form::kMetadata)
    out += json::serialize(metadata_of(request, object, seq, then));
  else if (is_scale(request))
    out += json::serialize(scale_of(shown_tree(request, object), scale_paths(request)));
  else if (object.type == kNodes || object.type == kPods || object.type == kNamespaces || is_going(object) ||
           is_node_lease(object) || is_converted(object.type, request.api_version) ||
           (request.kind->custom && (request.kind->custom->has_defaults || request.kind->custom->notes_version)))
    append_tree(out, request, object, seq, then);
  else
    append_text(out, object, request.shown_as(), wall_offset_of(*request.visit->read()), seq);
}

void answer_shown(const Request& request, const Object& object, int status) {
  if (request.accepted.protobuf)
    return answer_tree(request, tree_at(request, object, 0), status);
  std::string out;
  if (request.accepted.form == Accepted::Form::kTable) {
    out = list_head(request, object.meta.seq, "", 0);
    append_item(out, request, object);
    out += list_end();
  } else {
    append_shown(out, request, object);
  }
  answer_json(request, std::move(out), status);
}

bool items_say_kind(const Request& request) {
  return request.accepted.form != Accepted::Form::kWhole || request.kind->custom || !request.kind->schema;
}

void drop_kind(std::string& text, std::size_t from, const Request& request) {
  const std::string head =
      format(R"({{"kind":{},"apiVersion":{},)", json::serialize(json::string_view(request.kind->kind)),
             json::serialize(json::string_view(request.api_version)));
  if (std::string_view(text).substr(from).starts_with(head))
    text.erase(from + 1, head.size() - 1);
}

std::string list_head(const Request& request, Seq seq, const std::string& next, std::size_t left, Columns columns) {
  using enum Accepted::Form;
  std::string kind = request.kind->list_kind, version = request.api_version;
  if (request.accepted.form != kWhole) {
    kind = request.accepted.form == kTable ? "Table" : "PartialObjectMetadataList";
    version = "meta.k8s.io/" + request.accepted.version;
  }
  std::string out =
      format(R"({{"kind":"{}","apiVersion":"{}","metadata":{{"resourceVersion":"{}")", kind, version, seq);
  if (!next.empty())
    out += R"(,"continue":)" + json::serialize(json::string_view(next));
  if (!next.empty() && left > 0)
    out += format(R"(,"remainingItemCount":{})", left);
  out += '}';
  if (request.accepted.form == kTable && columns == Columns::kNot)
    out += R"(,"columnDefinitions":null,"rows":[)";
  else if (request.accepted.form == kTable)
    out += R"(,"columnDefinitions":)" +
           json::serialize(columns_text(request.kind->custom ? request.kind->custom->version->columns.columns()
                                                             : columns_of(request.kind->type))) +
           R"(,"rows":[)";
  else
    out += R"(,"items":[)";
  return out;
}

std::string list_end() { return "]}"; }

void append_item(std::string& out, const Request& request, const Object& object, const PodRecords* then) {
  if (request.accepted.form != Accepted::Form::kTable)
    return append_shown(out, request, object, 0, then);
  const json::object tree = shown_tree(request, object, {}, then);
  const std::string include = query_of(request.http(), "includeObject");
  json::object row{{"cells", request.kind->custom
                                 ? request.kind->custom->version->columns.cells(json::value(tree), wall_of(request))
                                 : cells_of(request.kind->type, tree, wall_of(request))}};
  if (include == "Object")
    row["object"] = tree;
  else if (include != "None")
    row["object"] = json::object{{"kind", "PartialObjectMetadata"},
                                 {"apiVersion", "meta.k8s.io/" + request.accepted.version},
                                 {"metadata", tree.at("metadata")}};
  out += json::serialize(row);
}

ProtobufList::ProtobufList(const Request& request, Seq seq, const std::string& next, std::size_t left)
    : request_(request) {
  json::object metadata{{"resourceVersion", std::to_string(seq)}};
  if (!next.empty())
    metadata["continue"] = next;
  if (!next.empty() && left > 0)
    metadata["remainingItemCount"] = left;
  const auto bytes = encode_message(metadata, *builtin_schema(kListMetaName));
  CHECK(bytes.ok());
  append_list_metadata(message_, *bytes);
}

void ProtobufList::add(const Object& object) {
  unsigned char scratch[kScratchBytes];
  json::monotonic_resource storage(scratch);
  const auto bytes = encode_message(shown_tree(request_, object, &storage), *request_.kind->schema);
  if (bytes.ok())
    append_list_item(message_, *bytes);
  else if (failed_.empty())
    failed_ = format("{} has no protobuf form: {}", object.meta.name, bytes.error().message);
}

std::string ProtobufList::end() && {
  if (!failed_.empty())
    return encoded(Status::internal(failed_).body());
  return protobuf_envelope(request_.api_version, request_.kind->list_kind, message_);
}

}  // namespace lockstep::kube
