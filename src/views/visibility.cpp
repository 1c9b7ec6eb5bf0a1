#include "views/visibility.h"

namespace lockstep {

namespace {

Visibility standing_of(const Viewer& viewer, const Record& record) {
  if (viewer.admin)
    return Visibility::kAdministrator;
  return viewer.owns(owner_of(record)) ? Visibility::kOwner : Visibility::kEveryone;
}

}  // namespace

std::optional<Visibility> seen_as(const Viewer& viewer, const Record& record) {
  // What administrators may do with a token needs none of its secret, so nobody is shown the hash.
  if (std::holds_alternative<Ref<JoinToken>>(record) && viewer.admin)
    return Visibility::kOwner;
  const Visibility standing = standing_of(viewer, record);
  return standing < visibility_of(kind_of(record)) ? std::nullopt : std::optional(standing);
}

std::optional<Record> shown_to(const Viewer& viewer, const Record& record) {
  const auto how = seen_as(viewer, record);
  return how ? std::optional(as_seen_by(record, *how)) : std::nullopt;
}

}  // namespace lockstep
