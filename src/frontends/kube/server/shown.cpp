#include "frontends/kube/server/shown.h"

#include <boost/json/serialize.hpp>

#include "base/text.h"

namespace lockstep::kube {

namespace {

Duration wall_offset_of(const Request& request) {
  const auto read = request.visit->read();
  return read->wall_offset;
}

json::object metadata_of(const Request& request, const Object& object, Seq seq) {
  json::object tree = tree_of(object, request.shown_as(), wall_offset_of(request));
  json::object metadata = std::move(tree["metadata"].as_object());
  if (seq)
    metadata["resourceVersion"] = std::to_string(seq);
  return {{"kind", "PartialObjectMetadata"},
          {"apiVersion", "meta.k8s.io/" + request.accepted.version},
          {"metadata", std::move(metadata)}};
}

constexpr std::string_view kColumns =
    R"([{"name":"Name","type":"string","format":"name","description":"Name must be unique within a namespace.","priority":0},)"
    R"({"name":"Created At","type":"date","format":"","description":"When it was made.","priority":0}])";

}  // namespace

void append_shown(std::string& out, const Request& request, const Object& object, Seq seq) {
  if (request.accepted.form == Accepted::Form::kMetadata)
    out += json::serialize(metadata_of(request, object, seq));
  else
    append_text(out, object, request.shown_as(), wall_offset_of(request), seq);
}

std::string shown_text(const Request& request, const Object& object) {
  std::string out;
  append_shown(out, request, object);
  return out;
}

std::string list_head(const Request& request, Seq seq, const std::string& next, std::size_t left) {
  using enum Accepted::Form;
  std::string kind = request.kind->list_kind, version = request.api_version;
  if (request.accepted.form != kWhole) {
    kind = request.accepted.form == kTable ? "Table" : "PartialObjectMetadataList";
    version = "meta.k8s.io/" + request.accepted.version;
  }
  std::string out = format(R"({{"kind":"{}","apiVersion":"{}","metadata":{{"resourceVersion":"{}")", kind, version, seq);
  if (!next.empty())
    out += R"(,"continue":)" + json::serialize(json::string_view(next));
  if (!next.empty() && left > 0)
    out += format(R"(,"remainingItemCount":{})", left);
  out += '}';
  if (request.accepted.form == kTable)
    (out += R"(,"columnDefinitions":)").append(kColumns).append(R"(,"rows":[)");
  else
    out += R"(,"items":[)";
  return out;
}

std::string list_end() { return "]}"; }

void append_item(std::string& out, const Request& request, const Object& object) {
  if (request.accepted.form != Accepted::Form::kTable)
    return append_shown(out, request, object);
  json::object metadata = metadata_of(request, object, 0);
  const json::object& meta = metadata["metadata"].as_object();
  const json::value* made = meta.if_contains("creationTimestamp");
  const std::string include = query_of(request.http(), "includeObject");
  json::object row{{"cells", json::array{json::string_view(object.meta.name), made ? *made : json::value("<unknown>")}}};
  if (include == "Object")
    row["object"] = tree_of(object, request.shown_as(), wall_offset_of(request));
  else if (include != "None")
    row["object"] = std::move(metadata);
  out += json::serialize(row);
}

}  // namespace lockstep::kube
