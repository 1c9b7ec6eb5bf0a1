#include "frontends/kube/server/body.h"

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_extent.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/typed.h"
#include "frontends/kube/machinery/validation.h"
#include "frontends/kube/machinery/yaml_values.h"
#include "frontends/kube/server/draft.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kLongValues = 500;  // a body with more is read aside, however short its text
constexpr std::size_t kOptionsBytes = 64 << 10;

Answered<json::value> parsed(const std::string& text) {
  if (const std::size_t values = extent_of(text).values; values > kValuesMax) {
    Status status = Status::too_large(0);
    status.message = format("Request entity too large: it has {} values, limit is {}", values, kValuesMax);
    return status;
  }
  auto value = parse_given(text);
  if (!value.ok())
    return Status::bad_request("the body is no JSON: " + value.error().message);
  return std::move(*value);
}

bool is_yaml(const Request& request) {
  const std::string type = header_of(request.http(), "content-type");
  return type.starts_with("application/yaml") || type.starts_with("application/apply-patch");
}

Answered<json::value> parsed_yaml(const std::string& text, const YamlMost& most = {}) {
  if (trim(text).starts_with('{'))  // what kubectl sends; what is no JSON may be YAML that begins so
    if (auto read = parsed(text); read.ok())
      return read;
  auto made = values_of_yaml(text, most);
  if (!made.ok())
    return Status::bad_request("error converting YAML to JSON: yaml: " + made.error().message);
  return std::move(made->value);
}

// Keys that are there twice, as the real server's reader of YAML tells them.
std::vector<std::string> doubled_in_yaml(const std::string& text) {
  if (trim(text).starts_with('{') && parse_given(text).ok() && duplicate_fields(text).empty())
    return {};
  auto made = values_of_yaml(text);
  return made.ok() ? std::move(made->doubled) : std::vector<std::string>();
}

constexpr std::string_view kYamlErrors = "yaml: unmarshal errors:\n  ";

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

bool has_long_body(const Request& request) {
  const std::string& body = request.http().body;
  if (body.size() > kReadAtOnce)
    return true;
  if (is_yaml(request) && may_outgrow_its_text(body))
    return true;
  const JsonExtent extent = extent_of(body);
  return extent.values + extent.lines > kLongValues;
}

void read_body_then(const Asked& request, std::function<void(json::object)> then) {
  const auto read = [request] { return read_body(*request, request->http().body); };
  const auto go_on = [request, then = std::move(then)](Answered<json::object> body) {
    if (!body.ok())
      return answer_status(*request, body.error());
    then(std::move(*body));
  };
  if (!has_long_body(*request))
    return go_on(read());
  const auto body = std::make_shared<std::optional<Answered<json::object>>>();
  const auto taken =
      request->visit->aside([read, body] { body->emplace(read()); }, [go_on, body] { go_on(std::move(**body)); });
  if (!taken.ok())
    answer_status(*request, Status::too_many_requests(taken.error().message, 1));
}

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
  if (request.http().body.size() > kOptionsBytes)
    return Status::too_large(kOptionsBytes);
  if (is_protobuf(request)) {
    auto tree = decode_protobuf(request.http().body, "v1", "DeleteOptions");
    if (!tree.ok())
      return Status::bad_request("the body is no protobuf of ours: " + tree.error().message);
    return std::move(*tree);
  }
  json::value value = TRY(is_yaml(request) ? parsed_yaml(request.http().body, {kLongValues, kOptionsBytes})
                                           : parsed(request.http().body));
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

namespace {

Status cannot_be_handled(const Request& request, const std::string& why) {
  return Status::bad_request(format("{} in version \"{}\" cannot be handled as a {}: {}", request.kind->kind,
                                    request.kind->version, request.kind->kind, why));
}

// Types, canonical forms and defaults of an object that has no other fields than its kind.
std::optional<Status> settle_pruned(const Request& request, json::object& tree) {
  const Schema& schema = *request.kind->schema;
  if (!request.kind->custom) {
    if (const auto settled = settle(tree, schema); !settled.ok())
      return cannot_be_handled(request, settled.error().message);
  } else if (json::value* metadata = tree.if_contains("metadata"); metadata && metadata->is_object()) {
    if (const auto settled = settle(metadata->get_object(), *builtin_schema(kObjectMetaName)); !settled.ok())
      return cannot_be_handled(request, settled.error().message);
  }
  fill_defaults(tree, schema, request.now);
  if (request.kind->custom)
    sort_members(tree);
  return std::nullopt;
}

}  // namespace

std::optional<Status> settle_made(const Request& request, json::object& tree) {
  if (!request.kind->schema)
    return std::nullopt;
  prune(tree, *request.kind->schema);
  return settle_pruned(request, tree);
}

std::optional<Status> settle_object(Request& request, json::object& tree, std::string_view text) {
  if (!request.kind->schema)
    return std::nullopt;
  const std::vector<std::string> unknown = prune(tree, *request.kind->schema);
  const std::string level = query_of(request.http(), "fieldValidation");
  if (level != "Ignore") {
    const bool is_json = !text.empty() && !is_protobuf(request) && !is_yaml(request);
    const auto doubled = is_json ? duplicate_fields(text) : std::vector<std::string>();
    auto errors = strict_errors(request.kind->custom ? unknown : std::vector<std::string>(), doubled);
    if (!request.kind->custom) {  // the real server tells them the other way round there
      const auto first = strict_errors(unknown, {});
      errors.insert(errors.begin(), first.begin(), first.end());
    }
    const bool applies = is_apply(request);
    const auto lines = is_yaml(request) && (applies || !text.empty()) ? doubled_in_yaml(request.http().body)
                                                                      : std::vector<std::string>();
    if (level == "Strict" && !lines.empty() && applies)
      return Status::bad_request(
          format("error strict decoding YAML: error converting YAML to JSON: {}{}", kYamlErrors, join(lines, "\n  ")));
    if (level == "Strict" && !lines.empty())
      errors.insert(errors.begin(), format("{}{}", kYamlErrors, join(lines, "\n  ")));
    if (level == "Strict" && !errors.empty())
      return cannot_be_handled(request, strict_message(errors));
    errors.insert(errors.begin(), lines.begin(), lines.end());
    request.warnings = errors;  // of the last try alone
  }
  return settle_pruned(request, tree);
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
