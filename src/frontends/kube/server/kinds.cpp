#include "frontends/kube/server/kinds.h"

#include <algorithm>

namespace lockstep::kube {

const Kind* Kinds::find(std::string_view group, std::string_view version, std::string_view plural) const {
  for (const auto& kind : all_)
    if (kind->plural == plural && kind->version == version && kind->group == group)
      return kind.get();
  return nullptr;
}

const Kind* Kinds::of_kind(std::string_view api_version, std::string_view name) const {
  for (const auto& kind : all_)
    if (kind->kind == name && kind->api_version() == api_version)
      return kind.get();
  return nullptr;
}

void Kinds::put(Kind kind) {
  remove(kind.group, kind.version, kind.plural);
  all_.push_back(std::make_shared<const Kind>(std::move(kind)));
}

void Kinds::remove(std::string_view group, std::string_view version, std::string_view plural) {
  std::erase_if(all_, [&](const auto& kind) { return kind->group == group && kind->version == version && kind->plural == plural; });
}

}  // namespace lockstep::kube
