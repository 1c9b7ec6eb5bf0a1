#include "frontends/kube/server/request.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/machinery/yaml_text.h"
#include "frontends/kube/server/indented.h"
#include "frontends/kube/store/stored_object.h"
#include "model/object_share.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kYamlMax = 4 << 20;  // longer answers are JSON, which is YAML too

std::string_view parameter(const std::vector<std::string>& parts, std::string_view name) {
  for (const std::string& part : parts) {
    const std::string_view word = trim(part);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
  }
  return {};
}

std::string warning_header(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return "299 - \"" + quoted + "\"";
}

}  // namespace

bool is_scale(const Request& request) { return request.target.subresource == "scale"; }

const ScalePaths& scale_paths(const Request& request) {
  const auto& custom = request.kind->custom;
  return custom && custom->version->scale ? *custom->version->scale : built_in_scale();
}

ShownAs sent_kind(const Request& request, std::string& api_version) {
  api_version = request.api_version;
  const Subresource* sub = request.kind->subresource(request.target.subresource);
  if (!sub || sub->kind.empty())
    return {api_version, request.kind->kind};
  api_version = group_version_text(sub->group, sub->version);
  return {api_version, sub->kind};
}

// "application/json;as=Table;v=v1;g=meta.k8s.io,application/json": the first that we have.
Answered<Accepted> accepted_by(const HttpRequest& http, bool has_protobuf) {
  const std::string header = header_of(http, "accept");
  if (header.empty())
    return Accepted{};
  std::vector<std::string> served{"application/json", "application/yaml"};
  if (has_protobuf)
    served.emplace_back(kProtobufType);
  for (const std::string& range : split(header, ',')) {
    const std::vector<std::string> parts = split(range, ';');
    const std::string_view type = parts.empty() ? std::string_view() : trim(parts.front());
    if (type == kProtobufType && has_protobuf && parameter(parts, "as").empty())
      return Accepted{Accepted::Form::kWhole, "v1", true};
    if (type == "application/yaml" && parameter(parts, "as").empty())
      return Accepted{Accepted::Form::kWhole, "v1", false, true};
    if (type != "application/json" && type != "*/*" && type != "application/*")
      continue;
    const std::string_view as = parameter(parts, "as");
    const std::string_view version = parameter(parts, "v");
    if (!as.empty() && (parameter(parts, "g") != "meta.k8s.io" || (version != "v1" && version != "v1beta1")))
      continue;
    if (as.empty())
      return Accepted{};
    if (as == "Table")
      return Accepted{Accepted::Form::kTable, std::string(version)};
    if (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList")
      return Accepted{Accepted::Form::kMetadata, std::string(version)};
  }
  return Status::not_acceptable(served);
}

namespace {

// What is to be said of every answer in a version that goes out of use; "": nothing.
std::string deprecation(const Request& request) {
  if (!request.kind)
    return {};
  if (request.kind->type == "endpoints")
    return "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
  const CustomVersion* version = request.kind->custom ? request.kind->custom->version : nullptr;
  if (!version || !version->deprecated)
    return {};
  if (!version->deprecation_warning.empty())
    return version->deprecation_warning;
  const CustomDefinition& definition = *request.kind->custom->definition;
  std::string out = format("{}/{} {} is deprecated", definition.group, version->name, definition.kind), newer;
  for (const CustomVersion& other : definition.versions)
    if (other.served && !other.deprecated && version_before(other.name, version->name) &&
        (newer.empty() || version_before(other.name, newer)))
      newer = other.name;
  return newer.empty() ? out : format("{}; use {}/{} {}", out, definition.group, newer, definition.kind);
}

}  // namespace

void add_warnings(Request& request, std::vector<std::string> warnings) {
  for (std::string& one : warnings)
    if (std::ranges::find(request.warnings, one) == request.warnings.end())
      request.warnings.push_back(std::move(one));
}

void answer_body(const Request& request, std::string_view type, std::string body, int status) {
  HttpResponse response{status, std::string(type), std::move(body), {}};
  if (request.accepted.yaml && type == kJsonType && response.body.size() <= kYamlMax) {
    response.body = yaml_text(parse_own(response.body));
    response.content_type = "application/yaml";
  }
  std::string all;
  const auto warn = [&](const std::string& words) { all += (all.empty() ? "" : ", ") + warning_header(words); };
  if (const std::string words = deprecation(request); !words.empty())
    warn(words);
  for (const std::string& warning : request.warnings) warn(warning);
  if (!all.empty())
    response.headers["Warning"] = all;
  response.headers["Cache-Control"] = "no-cache, private";
  request.visit->answer(indented_if_wanted(request.http(), std::move(response)));
}

void answer_json(const Request& request, std::string body, int status) {
  answer_body(request, kJsonType, std::move(body), status);
}

// Clients read by the type that the answer names: what has no protobuf form is JSON for all of them.
void answer_tree(const Request& request, const json::object& tree, int status) {
  if (request.accepted.protobuf)
    if (auto encoded = encode_protobuf(tree); encoded.ok())
      return answer_body(request, kProtobufType, std::move(*encoded), status);
  answer_json(request, json::serialize(tree), status);
}

void answer_status(FrontVisit& visit, const Status& status) {
  HttpResponse response{status.code, "application/json", json::serialize(status.body()), {}};
  if (status.retry_after_seconds > 0)
    response.headers["Retry-After"] = std::to_string(status.retry_after_seconds);
  visit.answer(indented_if_wanted(visit.request(), std::move(response)));
}

void answer_status(const Request& request, const Status& status) {
  if (!request.accepted.protobuf || status.retry_after_seconds > 0)
    return answer_status(*request.visit, status);
  answer_tree(request, status.body(), status.code);
}

Status status_of(const Error& error, const Qualified& resource, std::string_view name) {
  switch (error.code) {
    case Errc::kNotFound: return Status::not_found(resource, name);
    case Errc::kConflict: return Status::object_modified(resource, name);
    case Errc::kDenied: return Status::forbidden(resource, name, error.message);
    case Errc::kInvalid:
    case Errc::kImpossible:
    case Errc::kUnsupported: return Status::bad_request(error.message);
    case Errc::kExhausted:
      return error.field.ends_with(kObjectShareField) ? Status::forbidden(resource, name, error.message)
                                                      : Status::too_many_requests(error.message, 1);
    case Errc::kUnavailable: return Status::unavailable(error.message);
    case Errc::kTimeout: return Status::timeout(error.message);
    case Errc::kIo:
    case Errc::kCorrupt:
    case Errc::kInternal: break;
  }
  return Status::internal(error.message);
}

Duration wall_offset_of(const ReadContext& read) {
  return read.tables.cluster ? read.tables.cluster->wall_offset : read.wall_offset;
}

ObjectKey key_of(const Request& request) { return {request.kind->type, request.target.ns, request.target.name}; }

Ref<Object> find_object(const Request& request) {
  const auto read = request.visit->read();
  const auto at = read->tables.objects.find(key_of(request));
  return at == read->tables.objects.end() ? nullptr : at->second;
}

}  // namespace lockstep::kube
