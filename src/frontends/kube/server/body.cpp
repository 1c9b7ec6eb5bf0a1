#include "frontends/kube/server/body.h"

#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/protobuf.h"
#include "wire/yaml.h"

namespace lockstep::kube {

namespace {

Answered<json::value> parsed(const std::string& text) {
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::value value = json::parse(text, failed, {}, options);
  if (failed)
    return Status::bad_request("the body is no JSON: " + failed.message());
  return value;
}

bool is_yaml(const Request& request) {
  const std::string type = header_of(request.http(), "content-type");
  return type.starts_with("application/yaml") || type.starts_with("application/apply-patch");
}

Answered<json::value> parsed_yaml(const std::string& text) {
  if (trim(text).starts_with('{'))  // what kubectl sends
    return parsed(text);
  const auto made = json_of_yaml(text);
  if (!made.ok())
    return Status::bad_request("the body is no YAML: " + made.error().message);
  return parsed(made->json);
}

bool is_protobuf(const Request& request) {
  return header_of(request.http(), "content-type").starts_with("application/vnd.kubernetes.protobuf");
}

}  // namespace

Answered<json::object> read_body(Request& request, const std::string& body) {
  if (is_protobuf(request)) {
    auto tree = decode_protobuf(body, request.api_version, request.kind->kind);
    if (!tree.ok())
      return Status::bad_request("the body is no protobuf of ours: " + tree.error().message);
    return std::move(*tree);
  }
  json::value value = TRY(is_yaml(request) ? parsed_yaml(body) : parsed(body));
  if (!value.is_object())
    return Status::bad_request("the body is no object");
  json::object& tree = value.get_object();
  const std::string_view version = text_of(tree["apiVersion"]), kind = text_of(tree["kind"]);
  if ((!version.empty() && version != request.api_version) || (!kind.empty() && kind != request.kind->kind))
    return Status::bad_request(format("the object is of {} {}, and {} {} belongs here", version, kind, request.api_version, request.kind->kind));
  return std::move(tree);
}

Answered<json::value> read_patch(const Request& request) { return parsed(request.http().body); }

Answered<json::object> read_options(const Request& request) {
  if (is_protobuf(request)) {
    auto tree = decode_protobuf(request.http().body, "v1", "DeleteOptions");
    if (!tree.ok())
      return Status::bad_request("the body is no protobuf of ours: " + tree.error().message);
    return std::move(*tree);
  }
  json::value value = TRY(parsed(request.http().body));
  if (!value.is_object())
    return Status::bad_request("the body is no object");
  return std::move(value.get_object());
}

void fill_defaults(const Request&, json::object&) {}
void validate_object(const Request&, const json::object&, const json::object*, FieldErrors&) {}

}  // namespace lockstep::kube
