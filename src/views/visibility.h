// Visibility: what one user sees of another's records, as their lists of fields say it (model/told_to.h). Every page
// and answer that shows records passes them through here.
#pragma once

#include <optional>

#include "model/kinds.h"

namespace lockstep {

// Who looks.
struct Viewer {
  UserId user;
  bool admin = false;
  NodeId only_on = {};  // as Caller::only_on
  bool owns(UserId owner) const { return admin || (user && user == owner && !only_on); }
  bool owns(const Job& job) const;
};

// As whom the viewer sees the record (as_seen_by()); nothing: not at all. Root of a node is the owner of a job, step or
// task only where it is known to be on that node: a task's record does not tell.
std::optional<Visibility> seen_as(const Viewer& viewer, const Record& record);
// A job's tasks, whatever their records say of whose they are.
Visibility sees_job_as(const Viewer& viewer, const Job& job);

// The record as the viewer may see it; nothing: it is not shown to them at all. Costs a copy only where it differs.
std::optional<VisibleRecord> shown_to(const Viewer& viewer, const Record& record);
template <class T>
Visible<T> shown_to(const Viewer& viewer, const Ref<T>& record) {
  const auto shown = shown_to(viewer, Record(record));
  return shown ? shown->template as<T>() : Visible<T>();
}

}  // namespace lockstep
