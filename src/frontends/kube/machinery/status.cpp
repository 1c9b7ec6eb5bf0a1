#include "frontends/kube/machinery/status.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube {
namespace {

Status about(int code, std::string_view reason, const Qualified& what, std::string_view name, std::string message) {
  Status status;
  status.code = code;
  status.reason = reason;
  status.message = std::move(message);
  status.group = what.group;
  status.kind = what.name;
  status.name = name;
  return status;
}

Status plain(int code, std::string_view reason, std::string message) {
  return about(code, reason, {}, {}, std::move(message));
}

}  // namespace

json::object Status::body() const {
  json::object body;
  body["kind"] = "Status";
  body["apiVersion"] = "v1";
  body["metadata"] = json::object();
  body["status"] = "Failure";
  body["message"] = message;
  if (!reason.empty())
    body["reason"] = reason;
  json::object details;
  const auto say = [&](const char* key, const std::string& text) {
    if (!text.empty())
      details[key] = text;
  };
  say("name", name);
  say("group", group);
  say("kind", kind);
  say("uid", uid);
  if (!causes.empty()) {
    json::array list;
    for (const Cause& cause : causes) {
      json::object one;
      if (!cause.reason.empty())
        one["reason"] = cause.reason;
      if (!cause.message.empty())
        one["message"] = cause.message;
      if (!cause.field.empty())
        one["field"] = cause.field;
      list.push_back(std::move(one));
    }
    details["causes"] = std::move(list);
  }
  if (retry_after_seconds > 0)
    details["retryAfterSeconds"] = retry_after_seconds;
  if (!details.empty())
    body["details"] = std::move(details);
  body["code"] = code;
  return body;
}

Status Status::bad_request(std::string why) { return plain(400, "BadRequest", std::move(why)); }
Status Status::unauthorized(std::string why) { return plain(401, "Unauthorized", std::move(why)); }

Status Status::forbidden(const Qualified& resource, std::string_view name, std::string_view why) {
  std::string message;
  if (resource.name.empty())
    message = format("forbidden: {}", why);
  else if (name.empty())
    message = format("{} is forbidden: {}", resource.text(), why);
  else
    message = format("{} {} is forbidden: {}", resource.text(), quoted(name), why);
  return about(403, "Forbidden", resource, name, std::move(message));
}

Status Status::not_found(const Qualified& resource, std::string_view name) {
  return about(404, "NotFound", resource, name, format("{} {} not found", resource.text(), quoted(name)));
}

Status Status::no_such_path() { return plain(404, "NotFound", "the server could not find the requested resource"); }

Status Status::method_not_allowed(const Qualified& resource, std::string_view verb) {
  return about(405, "MethodNotAllowed", resource, {},
               format("{} is not supported on resources of kind {}", verb, quoted(resource.text())));
}

Status Status::no_such_method() {
  return plain(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
}

Status Status::not_acceptable(const std::vector<std::string>& served_types) {
  return plain(406, "NotAcceptable", "only the following media types are accepted: " + join(served_types, ", "));
}

Status Status::already_exists(const Qualified& resource, std::string_view name) {
  return about(409, "AlreadyExists", resource, name, format("{} {} already exists", resource.text(), quoted(name)));
}

Status Status::conflict(const Qualified& resource, std::string_view name, std::string_view why) {
  return about(409, "Conflict", resource, name,
               format("Operation cannot be fulfilled on {} {}: {}", resource.text(), quoted(name), why));
}

Status Status::object_modified(const Qualified& resource, std::string_view name) {
  return conflict(resource, name,
                  "the object has been modified; please apply your changes to the latest version and try again");
}

Status Status::apply_conflict(std::vector<Cause> causes, std::string message) {
  Status status = plain(409, "Conflict", std::move(message));
  status.causes = std::move(causes);
  return status;
}

Status Status::expired(std::string why) { return plain(410, "Expired", std::move(why)); }
Status Status::gone(std::string why) { return plain(410, "Gone", std::move(why)); }

Status Status::too_large(std::int64_t limit_bytes) {
  return plain(413, "RequestEntityTooLarge", format("Request entity too large: limit is {}", limit_bytes));
}

Status Status::unsupported_media_type(const std::vector<std::string>& read_types) {
  return plain(
      415, "UnsupportedMediaType",
      "the body of the request was in an unknown format - accepted media types include: " + join(read_types, ", "));
}

Status Status::invalid(const Qualified& kind, std::string_view name, std::vector<Cause> causes) {
  std::vector<std::string> lines;
  for (const Cause& cause : causes) {
    std::string line = cause.field + ": " + cause.message;
    if (std::ranges::find(lines, line) == lines.end())
      lines.push_back(std::move(line));
  }
  std::string message = format("{} {} is invalid", kind.text(), quoted(name));
  if (lines.size() == 1)
    message += ": " + lines.front();
  else if (!lines.empty())
    message += ": [" + join(lines, ", ") + "]";
  Status status = about(422, "Invalid", kind, name, std::move(message));
  status.causes = std::move(causes);
  return status;
}

Status Status::unprocessable(std::string why) { return plain(422, "Invalid", std::move(why)); }

Status Status::too_many_requests(std::string_view why, std::int64_t retry_after_seconds) {
  Status status = plain(429, "TooManyRequests", format("Too many requests: {}", why));
  status.retry_after_seconds = retry_after_seconds;
  return status;
}

Status Status::internal(std::string_view why) {
  Status status = plain(500, "InternalError", format("Internal error occurred: {}", why));
  status.causes.push_back({{}, std::string(why), {}});
  return status;
}

Status Status::unavailable(std::string why) { return plain(503, "ServiceUnavailable", std::move(why)); }

Status Status::timeout(std::string_view why, std::int64_t retry_after_seconds) {
  Status status = plain(504, "Timeout", format("Timeout: {}", why));
  status.retry_after_seconds = retry_after_seconds;
  return status;
}

}  // namespace lockstep::kube
