#include "views/visibility.h"

#include <algorithm>

#include "model/job.h"
#include "model/step.h"

namespace lockstep {

namespace {

bool is_there(const Record& record, NodeId node) {
  if (const auto* job = std::get_if<Ref<Job>>(&record))
    return is_held_on(**job, node);
  if (const auto* step = std::get_if<Ref<Step>>(&record))
    return std::any_of((*step)->places.begin(), (*step)->places.end(),
                       [&](const StepPlace& place) { return place.node == node; });
  return false;
}

Visibility standing_of(const Viewer& viewer, const Record& record) {
  if (viewer.admin)
    return Visibility::kAdministrator;
  const bool is_owner = viewer.user && viewer.user == owner_of(record);
  return is_owner && (!viewer.only_on || is_there(record, viewer.only_on)) ? Visibility::kOwner : Visibility::kEveryone;
}

}  // namespace

bool Viewer::owns(const Job& job) const {
  return admin || (user && user == job.spec->user && (!only_on || is_held_on(job, only_on)));
}

std::optional<Visibility> seen_as(const Viewer& viewer, const Record& record) {
  const Visibility standing = standing_of(viewer, record);
  return standing < visibility_of(kind_of(record)) ? std::nullopt : std::optional(standing);
}

Visibility sees_job_as(const Viewer& viewer, const Job& job) {
  return viewer.admin ? Visibility::kAdministrator : viewer.owns(job) ? Visibility::kOwner : Visibility::kEveryone;
}

std::optional<VisibleRecord> shown_to(const Viewer& viewer, const Record& record) {
  const auto how = seen_as(viewer, record);
  return how ? std::optional(as_seen_by(record, *how)) : std::nullopt;
}

}  // namespace lockstep
