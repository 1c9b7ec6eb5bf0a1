#include "frontends/kube/machinery/resource.h"

#include <algorithm>

namespace lockstep::kube {

bool Resource::has_verb(std::string_view verb) const { return std::ranges::find(verbs, verb) != verbs.end(); }

const Subresource* Resource::subresource(std::string_view name) const {
  const auto at = std::ranges::find(subresources, name, &Subresource::name);
  return at == subresources.end() ? nullptr : &*at;
}

std::string group_version_text(std::string_view group, std::string_view version) {
  std::string out(group);
  if (!group.empty())
    out += '/';
  return out.append(version);
}

GroupVersion split_group_version(std::string_view api_version) {
  const std::size_t slash = api_version.find('/');
  if (slash == std::string_view::npos)
    return {"", std::string(api_version)};
  return {std::string(api_version.substr(0, slash)), std::string(api_version.substr(slash + 1))};
}

}  // namespace lockstep::kube
