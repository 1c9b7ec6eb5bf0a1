#include "routes/query_values.h"

#include <algorithm>

#include "base/nearest.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kShown = 60;  // bytes of what a stranger wrote

bool is_among(std::string_view words, std::string_view value) {
  const auto all = split(words, '|');
  return std::find(all.begin(), all.end(), value) != all.end();
}

bool is_meant(std::string_view kind, std::string_view value) {
  if (kind.empty())
    return true;
  if (kind == "number")
    return parse_uint(value).has_value();
  if (kind == "integer")
    return parse_int(value).has_value();
  if (kind == "flag")
    return value == "1" || value == "0";
  return is_among(kind, value);
}

std::string what_is_meant(std::string_view kind) {
  if (kind == "number")
    return "a whole number of 0 or more is meant";
  if (kind == "integer")
    return "a whole number is meant";
  if (kind == "flag")
    return "1 or 0 is meant";
  std::string out;
  const auto words = split(kind, '|');
  for (std::size_t i = 0; i < words.size(); ++i)
    out += format("{}{}", i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  return out + " is meant";
}

}  // namespace

Result<void> check_query_values(std::string_view method, std::string_view path, std::string_view listed,
                                const HttpRequest& request) {
  if (request.query.empty())
    return {};
  std::vector<std::string_view> names, kinds;
  each_query_name(listed, [&](std::string_view name, std::string_view kind) {
    names.push_back(name);
    kinds.push_back(kind);
  });
  for (const auto& [name, value] : request.query) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      return invalid(format("{} {} knows no \"{}\"{}", method, path, name.substr(0, kShown), hint(name, names)),
                     name.substr(0, kShown));
    const std::string_view kind = kinds[static_cast<std::size_t>(at - names.begin())];
    if (!is_meant(kind, value))
      return invalid(format("{} {}: {}={}: {}", method, path, name, value.substr(0, kShown), what_is_meant(kind)),
                     name);
  }
  return {};
}

}  // namespace lockstep
