#include "frontends/kube/server/body.h"

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/typed.h"
#include "frontends/kube/machinery/validation.h"
#include "wire/yaml.h"

namespace lockstep::kube {

namespace {

Answered<json::value> parsed(const std::string& text) {
  auto value = parse_given(text);
  if (!value.ok())
    return Status::bad_request("the body is no JSON: " + value.error().message);
  return std::move(*value);
}

bool is_yaml(const Request& request) {
  const std::string type = header_of(request.http(), "content-type");
  return type.starts_with("application/yaml") || type.starts_with("application/apply-patch");
}

// "line 9: foo is there twice", in the words of the real server's reader.
std::string yaml_words(const std::string& message) {
  constexpr std::string_view kTwice = " is there twice";
  const auto colon = message.find(": ");
  if (!message.ends_with(kTwice) || colon == message.npos)
    return "error converting YAML to JSON: " + message;
  return format("error converting YAML to JSON: yaml: unmarshal errors:\n  {}: key \"{}\" already set in map",
                message.substr(0, colon), message.substr(colon + 2, message.size() - colon - 2 - kTwice.size()));
}

Answered<json::value> parsed_yaml(const std::string& text) {
  if (trim(text).starts_with('{'))  // what kubectl sends; what is no JSON may be YAML that begins so
    if (auto read = parsed(text); read.ok())
      return read;
  const auto made = json_of_yaml(text);
  if (!made.ok())
    return Status::bad_request(yaml_words(made.error().message));
  return parsed(made->json);
}

// What the object would be told if it were to be stored: a value of another type.
std::optional<Status> wrong_type(const json::object& tree, const Schema& schema, std::string_view kind,
                                 std::string_view version) {
  json::object copy = tree;
  const auto settled = settle(copy, schema);
  if (settled.ok())
    return std::nullopt;
  return Status::bad_request(
      format("{} in version \"{}\" cannot be handled as a {}: {}", kind, version, kind, settled.error().message));
}

bool is_protobuf(const Request& request) {
  return header_of(request.http(), "content-type").starts_with("application/vnd.kubernetes.protobuf");
}

}  // namespace

Answered<json::object> read_body(const Request& request, const std::string& body) {
  std::string api_version;
  const ShownAs sent = sent_kind(request, api_version);
  if (is_protobuf(request)) {
    auto tree = decode_protobuf(body, sent.api_version, sent.kind);
    if (!tree.ok())
      return Status::bad_request("the body is no protobuf of ours: " + tree.error().message);
    return std::move(*tree);
  }
  json::value value = TRY(is_yaml(request) ? parsed_yaml(body) : parsed(body));
  if (!value.is_object())
    return Status::bad_request("the body is no object");
  json::object& tree = value.get_object();
  const std::string_view version = text_of(tree["apiVersion"]), kind = text_of(tree["kind"]);
  if ((!version.empty() && version != sent.api_version) || (!kind.empty() && kind != sent.kind))
    return Status::bad_request(
        format("the object is of {} {}, and {} {} belongs here", version, kind, sent.api_version, sent.kind));
  // Objects are judged where they are stored; a Scale, an Eviction and the like only here.
  if (const Subresource* sub = request.kind->subresource(request.target.subresource);
      sub && sub->schema && sub->kind != request.kind->kind)
    if (auto refused = wrong_type(tree, *sub->schema, sub->kind, sub->version))
      return std::move(*refused);
  return std::move(tree);
}

Answered<json::value> read_patch(const Request& request) { return parsed(request.http().body); }

Answered<json::object> read_options(const Request& request) {
  constexpr const char* kKind = "DeleteOptions";
  if (is_protobuf(request)) {
    auto tree = decode_protobuf(request.http().body, "v1", "DeleteOptions");
    if (!tree.ok())
      return Status::bad_request("the body is no protobuf of ours: " + tree.error().message);
    return std::move(*tree);
  }
  json::value value = TRY(parsed(request.http().body));
  if (!value.is_object())
    return Status::bad_request("the body is no object");
  json::object& tree = value.get_object();
  if (const json::value* kind = tree.if_contains("kind"); kind && !text_of(*kind).empty() && text_of(*kind) != kKind)
    return Status::bad_request(
        format("the object provided is unrecognized: {} is wanted, not {}", kKind, text_of(*kind)));
  if (auto refused =
          wrong_type(tree, *builtin_schema("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"), kKind, "v1"))
    return std::move(*refused);
  return std::move(tree);
}

std::optional<Status> settle_object(Request& request, json::object& tree, std::string_view text) {
  if (!request.kind->schema)
    return std::nullopt;
  const Schema& schema = *request.kind->schema;
  const auto refused = [&](const std::string& why) {
    return Status::bad_request(format("{} in version \"{}\" cannot be handled as a {}: {}", request.kind->kind,
                                      request.kind->version, request.kind->kind, why));
  };
  const std::vector<std::string> unknown = prune(tree, schema);
  const std::string level = query_of(request.http(), "fieldValidation");
  if (level != "Ignore") {
    const bool is_json = !text.empty() && !is_protobuf(request) && !is_yaml(request);
    const auto doubled = is_json ? duplicate_fields(text) : std::vector<std::string>();
    auto errors = strict_errors(request.kind->custom ? unknown : std::vector<std::string>(), doubled);
    if (!request.kind->custom) {  // the real server tells them the other way round there
      const auto first = strict_errors(unknown, {});
      errors.insert(errors.begin(), first.begin(), first.end());
    }
    if (!errors.empty() && level == "Strict")
      return refused(strict_message(errors));
    request.warnings = errors;  // of the last try alone
  }
  if (!request.kind->custom) {
    if (const auto settled = settle(tree, schema); !settled.ok())
      return refused(settled.error().message);
  } else if (json::value* metadata = tree.if_contains("metadata"); metadata && metadata->is_object()) {
    if (const auto settled = settle(metadata->get_object(), *builtin_schema(kObjectMetaName)); !settled.ok())
      return refused(settled.error().message);
  }
  const auto read = request.visit->read();
  fill_defaults(tree, schema, WallTime{(read->now + read->wall_offset).us});
  return std::nullopt;
}

void validate_object(const Request& request, const json::object& tree, const json::object* old, FieldErrors& out) {
  static const json::object none;
  const json::value* own = tree.if_contains("metadata");
  const json::object& metadata = own && own->is_object() ? own->get_object() : none;
  FieldErrors found;
  if (!old)
    found = validate_metadata(
        metadata,
        {.namespaced = request.kind->namespaced,
         .names = request.kind->custom ? NameRule::kDnsSubdomain : name_rule(request.kind->group, request.kind->plural),
         .built_in = !request.kind->custom});
  else if (const json::value* was = old->if_contains("metadata"); was && was->is_object())
    found = validate_metadata_update(metadata, was->get_object());
  out.insert(out.end(), found.begin(), found.end());
  if (!request.kind->schema)
    return;
  const auto& custom = request.kind->custom;
  found = custom ? custom->faults(tree, old) : validate_fields(tree, *request.kind->schema);
  out.insert(out.end(), found.begin(), found.end());
}

}  // namespace lockstep::kube
