// The envelope every record wears: what it is, who owns it, and at which point of history it last changed.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/shared.h"
#include "base/time.h"
#include "model/ids.h"

namespace lockstep {

// Readers share immutable records: a change is a new record, never an edit of a shared one.
template <class T>
using Ref = std::shared_ptr<const T>;

enum class Kind : unsigned char {
  kCluster,
  kUser,
  kAccount,
  kPartition,
  kNode,
  kToken,
  kJob,
  kStep,
  kTask,
  kObject,
  kAssociation,
  kQos,
  kUsage,
  kLicence,
  kReservation,
  kPolicy,
  kTopology,
  kPacking,
  kNodeClass,
  kHealthCheck,
};

struct OwnerRef {
  Kind kind = Kind::kObject;
  Uid uid;
  std::string name;
  bool controller = true;  // of several owners, the one that made it; a job ends when this one is deleted
  bool blocks = false;     // an owner that is deleted in the foreground does not go before this dependent has
  friend bool operator==(const OwnerRef&, const OwnerRef&) = default;
};

// The rarely used half of an envelope, out of line so that a plain job does not pay for it.
struct MetaExtra {
  std::vector<std::pair<std::string, std::string>> labels;       // sorted by key
  std::vector<std::pair<std::string, std::string>> annotations;  // sorted by key
  std::vector<OwnerRef> owners;
  std::vector<std::string> finalizers;  // while any is left, a deleted object stays
  Instant deleting;                     // when deletion was asked for; it cannot be taken back
  friend bool operator==(const MetaExtra&, const MetaExtra&) = default;
};

// Finalizers that a deletion sets by itself, under the names that Kubernetes gives them. The collector takes them off.
inline constexpr const char* kForeground = "foregroundDeletion";  // first the dependents go
inline constexpr const char* kOrphan = "orphan";                  // first the dependents are given up

struct Meta {
  SharedText ns;     // "" for cluster-wide kinds and for jobs of the Slurm front end
  std::string name;  // unique within (kind, ns) where the kind is named; jobs and steps go by id
  Uid uid;
  Seq seq = 0;                   // of the change that wrote this version; updates may compare-and-set on it
  std::uint32_t generation = 1;  // counts changes of what was asked for, not of status
  Instant created;
  Ref<MetaExtra> extra;  // null = all empty
};

}  // namespace lockstep
