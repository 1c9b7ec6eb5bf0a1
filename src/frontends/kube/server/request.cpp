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
    response.body = yaml_text(parse_own(response.body), yaml_most(response.body.size()));
    response.content_type = kYamlType;
  }
  std::string all;
  const auto warn = [&](const std::string& words) { all += (all.empty() ? "" : ", ") + warning_header(words); };
  if (const std::string words = deprecation(request); !words.empty())
    warn(words);
  for (const std::string& warning : request.warnings) warn(warning);
  if (!all.empty())
    response.headers["Warning"] = all;
  response.headers["Cache-Control"] = "no-cache, private";
  if (response.content_type == kJsonType && (request.accepted.pretty || wants_indented(request.http())))
    response.body = indented(response.body);
  else if (response.content_type == kJsonType && !response.body.ends_with('\n'))
    response.body += '\n';  // as encoders of Go end what they write
  request.visit->answer(std::move(response));
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

HttpResponse as_accepted(const HttpRequest& http, HttpResponse answer) {
  if (answer.content_type != kJsonType || answer.body.size() > kYamlMax || http.path.starts_with("/openapi"))
    return answer;
  const Accepted accepted = accepted_of_status(http);
  if (accepted.yaml) {
    answer.body = yaml_text(parse_own(answer.body), yaml_most(answer.body.size()));
    answer.content_type = kYamlType;
  } else if (accepted.pretty || plain_path(http) == "/version") {
    answer.body = indented(answer.body);
  } else {
    answer.body += '\n';
  }
  return answer;
}

void answer_status(FrontVisit& visit, const Status& status) {
  const Accepted accepted = accepted_of_status(visit.request());
  HttpResponse response{status.code, std::string(kJsonType), "", {}};
  if (status.retry_after_seconds > 0)
    response.headers["Retry-After"] = std::to_string(status.retry_after_seconds);
  const json::object tree = status.body();
  if (auto bytes = accepted.protobuf ? encode_protobuf(tree) : Result<std::string>(std::string()); !bytes.ok()) {
    response.body = json::serialize(tree);
  } else if (accepted.protobuf) {
    response.content_type = kProtobufType;
    response.body = std::move(*bytes);
  } else {
    response.body = json::serialize(tree);
  }
  visit.answer(as_accepted(visit.request(), std::move(response)));
}

void answer_status(const Request& request, const Status& status) { answer_status(*request.visit, status); }

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
