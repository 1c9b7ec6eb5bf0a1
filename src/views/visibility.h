// Visibility: what one user sees of another's records, as model/kinds.h says it field by field. Every page and answer
// that shows records passes them through here.
#pragma once

#include <optional>

#include "model/kinds.h"

namespace lockstep {

// Who looks.
struct Viewer {
  UserId user;
  bool admin = false;
  bool owns(UserId owner) const { return admin || (user && user == owner); }
};

// As whom the viewer sees the record (as_seen_by()); nothing: not at all.
std::optional<Visibility> seen_as(const Viewer& viewer, const Record& record);

// The record as the viewer may see it; nothing: it is not shown to them at all. Costs a copy only where it differs.
std::optional<Record> shown_to(const Viewer& viewer, const Record& record);
template <class T>
Ref<T> shown_to(const Viewer& viewer, const Ref<T>& record) {
  const auto shown = shown_to(viewer, Record(record));
  return shown ? std::get<Ref<T>>(*shown) : nullptr;
}

}  // namespace lockstep
