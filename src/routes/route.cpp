#include "routes/route.h"

#include "routes/query_values.h"

namespace lockstep {

bool covers(const Route& route, std::string_view path, std::vector<std::string>& names) {
  std::string_view pattern = route.path;
  names.clear();
  while (!pattern.empty()) {
    if (pattern == "**") {
      names.emplace_back(path);
      return true;
    }
    if (pattern.front() == '*') {
      const auto part = path.substr(0, path.find('/'));
      if (part.empty())
        return false;
      names.emplace_back(part);
      pattern.remove_prefix(1);
      path.remove_prefix(part.size());
      continue;
    }
    if (path.empty() || path.front() != pattern.front())
      return false;
    pattern.remove_prefix(1);
    path.remove_prefix(1);
  }
  return path.empty();
}

Result<void> check_query(const Route& route, const HttpRequest& request) {
  return route.query == "*" ? Result<void>{} : check_query_values(route.method, route.path, route.query, request);
}

}  // namespace lockstep
