#include "frontends/kube/server/target.h"

#include <vector>

#include "base/text.h"

namespace lockstep::kube {

namespace {

std::string verb_of(const HttpRequest& request, const Target& target) {
  const std::string& method = request.method;
  if (method == "GET" || method == "HEAD")
    return target.watch ? "watch" : target.name.empty() ? "list" : "get";
  if (method == "POST")
    return "create";
  if (method == "PUT")
    return "update";
  if (method == "PATCH")
    return "patch";
  if (method == "DELETE")
    return target.name.empty() ? "deletecollection" : "delete";
  return lower(method);
}

}  // namespace

std::string query_of(const HttpRequest& request, std::string_view name) {
  const auto at = request.query.find(name);
  return at == request.query.end() ? std::string() : at->second;
}

bool query_flag(const HttpRequest& request, std::string_view name) {
  const std::string value = lower(query_of(request, name));
  return value == "true" || value == "1" || value == "t";
}

std::string header_of(const HttpRequest& request, std::string_view lower_name) {
  const auto at = request.headers.find(lower_name);
  return at == request.headers.end() ? std::string() : at->second;
}

std::string plain_path(const HttpRequest& request) {
  std::string path = request.path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::optional<Target> target_of(const HttpRequest& request) {
  std::vector<std::string> parts = split(request.path, '/');
  if (!parts.empty() && parts.front().empty())
    parts.erase(parts.begin());
  while (!parts.empty() && parts.back().empty()) parts.pop_back();
  Target target;
  std::size_t at = 0;
  const auto next = [&] { return at < parts.size() ? parts[at++] : std::string(); };
  const std::string root = next();
  if (root == "apis")
    target.group = next();
  else if (root != "api")
    return std::nullopt;
  target.version = next();
  if (target.version.empty() || (root == "apis" && target.group.empty()))
    return std::nullopt;
  std::string word = next();
  if (word == "watch") {  // the older way to say ?watch=true
    target.watch = true;
    word = next();
  }
  // "namespaces/NAME/status" and "/finalize" are of the namespace itself.
  const bool inside = word == "namespaces" && target.group.empty() && at + 1 < parts.size() &&
                      parts[at + 1] != "status" && parts[at + 1] != "finalize";
  if (inside || (word == "namespaces" && !target.group.empty() && at + 1 < parts.size())) {
    target.ns = next();
    word = next();
  }
  target.resource = word;
  target.name = next();
  target.subresource = next();
  while (at < parts.size()) target.rest += (target.rest.empty() ? "" : "/") + parts[at++];
  target.watch = target.watch || query_flag(request, "watch");
  target.verb = verb_of(request, target);
  return target;
}

}  // namespace lockstep::kube
