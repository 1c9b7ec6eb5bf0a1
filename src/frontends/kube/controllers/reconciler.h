// Reconciler: what one controller of Kubernetes does: it looks at one object and what belongs to it, and says what is
// to change. It keeps nothing: everything it knows is in the view, so it may stand still, run twice or begin anew.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/records.h"
#include "model/tables.h"
#include "ports/actor.h"

namespace lockstep::kube {

class PodAdmission;
struct PodReading;

// Every object as one reader knows it, by who owns it and where it is.
class ObjectView {
 public:
  void apply(const Change& change);

  Ref<Object> find(std::string_view type, std::string_view ns, std::string_view name) const;
  const std::map<ObjectKey, Ref<Object>>& objects() const { return tables_.objects; }
  // Those of one resource in one namespace, in the order of their names: pairs of key and object.
  auto in(std::string_view type, std::string_view ns) const {
    std::string after(ns);
    after += '\0';
    return std::ranges::subrange(tables_.objects.lower_bound({std::string(type), std::string(ns), ""}),
                                 tables_.objects.lower_bound({std::string(type), std::move(after), ""}));
  }
  // Resources that the namespace has objects of, and how many.
  const std::map<std::string, std::size_t>& types_in(const std::string& ns) const;
  const std::set<ObjectKey>& dependents(Uid owner) const;
  // Of the kinds that controllers adopt: those of the namespace that nobody controls.
  const std::set<ObjectKey>& uncontrolled(const std::string& ns) const;
  // Pods that were made with that controller within the last minutes, those that have gone since as well. It follows
  // from the changes since the beginning: a new view knows those that are there.
  struct Made {
    std::int64_t count = 0;
    Instant last;
  };
  Made made_of_late(Uid controller, Instant now) const;
  // What the pod's object and records say, read once for each of its versions. Null: there is no such pod.
  std::shared_ptr<const PodReading> pod(std::string_view ns, std::string_view name) const;
  const Tables& tables() const { return tables_; }
  // Nodes on which the last change has given something to a job that is no pod, or taken from one.
  const std::vector<NodeId>& touched_nodes() const { return touched_; }
  // Jobs that are no pods and hold something of the node.
  const std::set<JobId>& other_jobs_on(NodeId node) const;
  // Who asks webhooks about new pods; null: nobody is asked.
  PodAdmission* admission() const { return admission_; }
  void ask_through(PodAdmission* admission) { admission_ = admission; }
  std::uint64_t looked() const { return looked_; }  // at objects since the beginning: what looks cost
  Duration wall_offset() const { return tables_.cluster ? tables_.cluster->wall_offset : Duration{}; }

 private:
  void index(const Object& object, bool there);
  void note_made(const Object& pod);
  void index_job(const Job& job, const Allocation* held, bool there);

  Tables tables_;
  PodAdmission* admission_ = nullptr;
  mutable std::uint64_t looked_ = 0;
  std::map<std::string, std::map<std::string, std::size_t>> types_in_;  // none zero
  std::map<Uid, std::set<ObjectKey>> dependents_;
  std::map<std::string, std::set<ObjectKey>> uncontrolled_;
  // How many pods were made in each second, by their controller; and what of it is old first.
  std::map<Uid, std::map<std::int64_t, std::int64_t>> made_;
  std::set<std::pair<std::int64_t, Uid>> made_when_;
  std::map<NodeId, std::set<JobId>> other_jobs_;
  std::vector<NodeId> touched_;
  mutable std::map<ObjectKey, std::shared_ptr<const PodReading>> pods_;  // of versions that are in tables_
};

ObjectKey key_of(const Object& object);

// What a reconciler wants. Everything rests on what it read: a stale wish is refused, and looked at again.
struct Wishes {
  struct Wish {
    CommandBody body;
    Reading read;
    std::vector<CommandBody> also = {};  // done with it, or nothing is
  };
  std::vector<Wish> wishes;
  Instant again = kNever;  // look again then, also if nothing changes
  // Told before the look: why the core refused its last wishes, other than for being stale or for want of room.
  std::string refused;
  bool asks = false;  // others (webhooks) have the word: what was told as `refused` is told again at the next look
  // Likewise: the share of objects is used up (model/object_share.h). Nothing new is to be wished for.
  std::string full;

  void add(CommandBody body, Reading read = {}, std::vector<CommandBody> also = {}) {
    wishes.push_back({std::move(body), std::move(read), std::move(also)});
  }
  void look_again(Instant when) { again = std::min(again, when); }
};

class Reconciler {
 public:
  virtual ~Reconciler() = default;
  virtual std::string_view name() const = 0;
  // The keys that are to be looked at since this object was made, changed or removed.
  virtual void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const = 0;
  // Likewise since a record that is no object was.
  virtual void woken_by_record(const ObjectView& /*view*/, const Change& /*change*/,
                               std::vector<ObjectKey>& /*out*/) const {}
  // Looked at once at the start.
  virtual std::vector<ObjectKey> first_keys() const { return {}; }
  virtual void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const = 0;
};

}  // namespace lockstep::kube
