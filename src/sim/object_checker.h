// ObjectChecker: objects by the committed records alone. A set never has more replicas than it asks for; an object goes
// no sooner than the work that was made for it, nor, in the foreground, than what blocks it; it advances with what it
// shows, and keeps how that ended.
//
// "sim/Set" asks for as many "sim/Replica" as its body says.
#pragma once

#include <map>
#include <set>
#include <span>

#include "model/change.h"
#include "model/records.h"
#include "sim/verdict.h"

namespace lockstep::sim {

inline constexpr const char* kSetType = "sim/Set";
inline constexpr const char* kReplicaType = "sim/Replica";

class ObjectChecker {
 public:
  explicit ObjectChecker(Verdict& verdict) : verdict_(verdict) {}

  // Changes of a batch as readers see them, in their order.
  void saw(std::span<const Change> changes);
  // Everything was deleted: nothing is left of sets and replicas.
  void finish();
  std::uint64_t made() const { return made_; }

 private:
  void changed(const Object* before, const Object* after);
  void went(const Object& object);
  void check_count(const Object& replica);
  void check_advanced(const Job& job, Seq before);
  std::size_t replicas_of(Uid owner) const;

  Verdict& verdict_;
  std::map<ObjectKey, Ref<Object>> objects_;
  std::map<Uid, ObjectKey> by_uid_;
  std::map<Uid, std::set<ObjectKey>> owned_;  // by every owner
  std::set<Uid> foreground_;                  // objects that were to go after their dependents
  std::map<JobId, Ref<Job>> jobs_;            // that an object shows, or that have an owner
  std::map<JobId, std::set<ObjectKey>> shown_by_;
  Seq seen_ = 0;
  std::uint64_t made_ = 0;
};

}  // namespace lockstep::sim
