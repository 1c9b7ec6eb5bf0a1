// Pods that controllers make: from a template to an object with its job, through the same defaults, checks and quotas
// that users' pods pass.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/kube/controllers/quota_ledger.h"
#include "frontends/kube/controllers/workload.h"

namespace lockstep::kube {

// The pod as a template (PodTemplateSpec) says, controlled by the owner, with the owner's name as generateName.
json::object pod_from_template(const json::value& pod_template, const Object& owner, const WorkloadKind& kind);

// The pods that one look at a workload makes. Their names follow from the owner's version, so that whoever decides
// twice makes none twice: the second is refused.
class NewPods {
 public:
  // told: where their jobs were refused a moment ago (Wishes::refused) they are made without, and wait; where the
  // namespace's share is used up (Wishes::full), none is made.
  NewPods(const ObjectView& view, Instant now, const Object& owner, const WorkloadKind& kind, const Wishes& told);

  // Takes the pod in, named by its generateName unless it has a name; or asks webhooks about it, and takes it in when
  // there is another look. Otherwise says why it cannot be made, as the API does: "pods \"a\" is forbidden: exceeded
  // quota …". Never when full().
  std::optional<std::string> add(json::object tree);
  // Pods that have gone or failed soon after they were made are not made again and again at once: whether the next ones
  // are to wait, told in an event; looked at again when they are due. wanted: so many pods the owner is to have;
  // done: so many of those that it made have done their work.
  bool must_wait(std::int64_t wanted, std::int64_t done, Wishes& out) const;
  void wish(Wishes& out);
  bool full() const;                               // this look makes no more
  std::size_t made() const { return made_; }       // so many were taken in
  bool is_asking() const { return waiting_ > 0; }  // webhooks; what they say is not known yet

 private:
  std::string name_for(const json::object& metadata);
  enum class Door : unsigned char { kOpen, kShut, kAsked };
  Door pass_webhooks(json::object& tree, bool has_own_name, const std::string& alike, std::string& refusal);

  const ObjectView& view_;
  const Instant now_;
  const Object& owner_;
  const WorkloadKind& kind_;
  const std::string refused_, no_room_;
  QuotaLedger ledger_;
  struct Made {
    std::string name;
    CommandBody body;
  };
  std::vector<Made> pods_;
  std::set<std::string> names_;
  std::uint64_t tried_ = 0;  // names so far
  std::size_t made_ = 0;
  std::map<std::string, std::size_t> asked_;  // pods that wait for webhooks, by what makes them alike
  std::size_t waiting_ = 0;                   // of them all together
  Duration patience_;                         // before they are looked for again
};

// An event FailedCreate, and another look after a pause that grows with the time since the failure began. since: 0 =
// as its event tells.
void wish_failed_create(Wishes& out, const ObjectView& view, Instant now, const Object& owner, const WorkloadKind& kind,
                        const std::string& why, WallTime since);

// Deletes the pods, each in the version that was read, with an event SuccessfulDelete about the owner.
void wish_pod_gone(Wishes& out, const ObjectView& view, Instant now, const Object& owner, const WorkloadKind& kind,
                   const Object& pod);

}  // namespace lockstep::kube
