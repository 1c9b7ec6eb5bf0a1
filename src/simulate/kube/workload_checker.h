// WorkloadChecker: what Kubernetes' controllers promise, by the committed records alone: no set ever has more pods than
// it asks for, no quota is overrun, no pod changes its node, nobody's finalizer is taken off, nothing outlives its
// namespace or its owners; and when everything has come to rest, everybody has what they asked for.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <string>

#include "simulate/kube/ledger.h"

namespace lockstep::sim {

inline constexpr const char* kHold = "sim.io/hold";  // a finalizer: only who asked for it takes it off

class WorkloadChecker {
 public:
  WorkloadChecker(Verdict& verdict, const Ledger& ledger) : verdict_(verdict), ledger_(ledger) {}

  void saw(const Ledger::Entry& entry);
  // What every new cluster has is there. Until then its first objects may come before their namespaces.
  void be_strict() { strict_ = true; }
  // A client is about to ask for the finalizer's end.
  void may_let_go(Uid uid) { let_go_.insert(uid); }

  // What is not as it should be when nothing happens any more; "" = nothing.
  std::string unrest() const;
  std::uint64_t pods_made() const { return pods_made_; }

 private:
  using Tree = boost::json::object;
  void made(const Object& object);
  void pod_made(const Object& pod);
  void check_node(const Object& pod);
  void check_finalizer(const Object& before, const Object* after);
  void check_surge(const Object* before, const Object& set);
  void check_budget(const Object& before, const Object& after);
  void check_quota(const Object& made);
  void check_members(const Object& set, const Object& pod);
  void check_one_per_node(const Object& set);
  void note_work(const Ledger::Entry& entry);
  Ref<Object> by_uid(Uid uid) const;
  std::vector<Ref<Object>> pods_of(Uid owner) const;  // active ones that it controls
  std::string unrest_of(const Object& object) const;

  Verdict& verdict_;
  const Ledger& ledger_;
  std::map<Uid, ObjectKey> by_uid_;
  std::map<Uid, std::string> nodes_;   // of pods
  std::map<ObjectKey, JobId> work_;    // of the last pod of each name, unless it was given up by force
  std::set<Uid> let_go_, were_ready_;  // were_ready_: pods of StatefulSets
  std::uint64_t pods_made_ = 0;
  bool strict_ = false;
};

}  // namespace lockstep::sim
