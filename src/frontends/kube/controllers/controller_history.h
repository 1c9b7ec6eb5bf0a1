// The templates that a DaemonSet or a StatefulSet had, each kept as a ControllerRevision: what `kubectl rollout
// history` shows and what one can go back to.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/kube/controllers/workload.h"

namespace lockstep::kube {

inline constexpr std::string_view kRevisionType = "controllerrevisions.apps";
inline constexpr const char* kRevisionHash = "controller-revision-hash";  // the label of pods

struct RevisionBook {
  std::vector<Ref<Object>> all;  // that are there, the oldest first
  std::string newest;            // of the template as it is; it may be on its way
  std::string newest_hash;
  bool name_is_taken = false;  // the revision could not be made: another count of collisions gives another name
};

// Finds the revision of the owner's template as it is. One that is missing is made; one that was there before becomes
// the newest. hash_label: by which revisions say their hash.
RevisionBook keep_history(const ObjectView& view, Instant now, const Object& owner, const json::object& tree,
                          const WorkloadKind& kind, const char* hash_label, Wishes& out);

// Deletes the oldest revisions beyond the limit. live: names or hashes of those that are in use.
void trim_history(const Object& owner, const RevisionBook& book, const std::set<std::string>& live,
                  const char* hash_label, std::int64_t limit, Wishes& out);

// The template that the revision holds; null where it holds none.
json::value template_of_revision(const Object& revision);

}  // namespace lockstep::kube
