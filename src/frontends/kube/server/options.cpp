#include "frontends/kube/server/options.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/machinery/managed_fields.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube {

namespace {

std::optional<std::string> said(const Request& request, std::string_view name) {
  const auto at = request.http().query.find(name);
  return at == request.http().query.end() ? std::nullopt : std::optional(at->second);
}

Status invalid_options(const char* kind, const char* reason, std::string message, const char* field) {
  return Status::invalid({"meta.k8s.io", kind}, "", {{reason, std::move(message), field}});
}

std::optional<Status> bad_number(const Request& request, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto text = said(request, name); text && !text->empty() && !parse_int(*text))
      return Status::bad_request(format("{}: strconv.ParseInt: parsing {}: invalid syntax", name, quoted(*text)));
  return std::nullopt;
}

// Of what writes: `kind` is that of its options.
std::optional<Status> bad_write(const Request& request, const char* kind) {
  if (const auto dry = said(request, "dryRun"); dry && *dry != "All")
    return invalid_options(kind, "FieldValueNotSupported",
                           format("Unsupported value: [{}]: supported values: \"All\"", quoted(*dry)), "dryRun");
  if (const auto level = said(request, "fieldValidation");
      level && !level->empty() && *level != "Ignore" && *level != "Strict" && *level != "Warn")
    return invalid_options(
        kind, "FieldValueNotSupported",
        format("Unsupported value: {}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"", quoted(*level)),
        "fieldValidation");
  const std::string manager = said(request, "fieldManager").value_or("");
  if (manager.size() > kManagerNameMax)
    return invalid_options(kind, "FieldValueTooLong",
                           format("Too long: may not be more than {} bytes", kManagerNameMax), "fieldManager");
  if (std::ranges::any_of(manager, [](unsigned char c) { return c < ' ' || c == 0x7F; }))
    return invalid_options(kind, "FieldValueInvalid", format("Invalid value: {}: invalid character", quoted(manager)),
                           "fieldManager");
  return std::nullopt;
}

std::optional<Status> bad_list(const Request& request) {
  if (auto bad = bad_number(request, {"limit", "timeoutSeconds"}))
    return bad;
  const auto refused = [](const char* reason, std::string message, const char* field) {
    return invalid_options("ListOptions", reason, std::move(message), field);
  };
  const std::string match = said(request, "resourceVersionMatch").value_or("");
  const std::string version = said(request, "resourceVersion").value_or("");
  const auto initial = said(request, "sendInitialEvents");
  const bool watches = request.target.verb == "watch";
  if (initial && !watches)
    return refused("FieldValueForbidden", "Forbidden: sendInitialEvents is forbidden for list", "sendInitialEvents");
  if (match.empty())
    return std::nullopt;
  constexpr const char* kMatch = "resourceVersionMatch";
  if (watches && !initial)
    return refused("FieldValueForbidden",
                   "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                   kMatch);
  if (!watches && version.empty())
    return refused("FieldValueForbidden",
                   "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided", kMatch);
  if (!watches && said(request, "continue"))
    return refused("FieldValueForbidden", "Forbidden: resourceVersionMatch is forbidden when continue is provided",
                   kMatch);
  if (match != "NotOlderThan" && (watches || match != "Exact"))
    return refused("FieldValueNotSupported",
                   format("Unsupported value: {}: supported values: {}\"NotOlderThan\"", quoted(match),
                          watches ? "" : "\"Exact\", "),
                   kMatch);
  if (match == "Exact" && version == "0")
    return refused("FieldValueForbidden",
                   "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"", kMatch);
  return std::nullopt;
}

bool is_custom(const Request& request) { return request.kind->custom != nullptr || !request.kind->schema; }

std::optional<Status> bad_type(const Request& request) {
  const std::string type = header_of(request.http(), "content-type");
  const std::string alone(trim(std::string_view(type).substr(0, type.find(';'))));
  const bool custom = is_custom(request);
  if (alone.empty() || alone == kJsonType || alone == "application/yaml" || (alone == kProtobufType && !custom))
    return std::nullopt;
  std::vector<std::string> read{std::string(kJsonType), "application/yaml"};
  if (!custom)
    read.emplace_back(kProtobufType);
  return Status::unsupported_media_type(read);
}

std::optional<Status> bad_patch_type(const Request& request) {
  const std::string type = header_of(request.http(), "content-type");
  const std::string_view alone = trim(std::string_view(type).substr(0, type.find(';')));
  std::vector<std::string> read{"application/json-patch+json", "application/merge-patch+json"};
  if (!is_custom(request))  // nothing says how lists of custom resources are merged
    read.emplace_back("application/strategic-merge-patch+json");
  read.emplace_back("application/apply-patch+yaml");
  return std::ranges::find(read, alone) == read.end() ? std::optional(Status::unsupported_media_type(read))
                                                      : std::nullopt;
}

}  // namespace

std::optional<Status> options_refusal(const Request& request) {
  const std::string& verb = request.target.verb;
  if (verb == "create" || verb == "update") {
    if (auto bad = bad_write(request, verb == "create" ? "CreateOptions" : "UpdateOptions"))
      return bad;
    return request.http().body.empty() ? std::nullopt : bad_type(request);
  }
  if (verb == "patch") {
    if (auto bad = bad_write(request, "PatchOptions"))
      return bad;
    if (auto bad = bad_patch_type(request))
      return bad;
    const bool apply = header_of(request.http(), "content-type").starts_with("application/apply-patch");
    if (said(request, "force") && !apply)
      return invalid_options("PatchOptions", "FieldValueForbidden",
                             "Forbidden: may not be specified for non-apply patch", "force");
    return std::nullopt;
  }
  if (verb == "list" || verb == "watch")
    return bad_list(request);
  if (verb == "delete" || verb == "deletecollection")
    return bad_number(request, {"gracePeriodSeconds"});
  return std::nullopt;
}

}  // namespace lockstep::kube
