// KubeUsers: people with kubectl and programs with client libraries: they make, scale, change and delete workloads and
// plain objects in every way, some of it at once and against each other, beside people with sbatch on the same nodes.
// What they are answered is held against the ledger.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "simulate/kube/api.h"
#include "simulate/kube/workload_checker.h"

namespace lockstep::sim {

class KubeUsers {
 public:
  KubeUsers(World& world, SimApi& api, Ledger& ledger, WorkloadChecker& checker);

  void prepare();  // again and again, until all was answered
  bool prepared() const { return step_ < 0; }
  void start();  // commands follow each other until all are sent
  bool done() const { return sent_ >= world_commands_; }
  std::uint64_t sent() const { return sent_; }
  std::uint64_t answered() const { return answered_; }
  // Nobody wants anything more: quotas are wide, finalizers come off, nodes are open. Repeated.
  void settle();
  // Everything is deleted, again and again until it is gone.
  void tear_down();
  std::string left() const;  // what of it is there; "" = nothing
  // Every increment of a counter that was answered is in it.
  std::string check_counters() const;

 private:
  using Tree = boost::json::object;
  struct Kind {
    const char *prefix, *plural, *type, *api_version, *kind;
  };
  static const Kind kConfigMap, kPod, kReplicaSet, kDeployment, kStatefulSet, kDaemonSet, kJob, kBudget, kQuota,
      kNamespace, kDefinition, kThing;

  void next();
  void one();
  void plain();  // config maps and custom objects
  void workload();
  void pod();
  void look(const Kind& kind, const std::string& ns, const std::string& name);
  void count();  // read, add one, write back
  void whole_namespace();
  void node();
  void sbatch();

  static std::string path(const Kind& kind, const std::string& ns, const std::string& name = {}, const char* sub = "");
  using Then = std::function<void(int status, const Tree& body)>;
  void send(const Kind& kind, KubeAsk ask, Then then = nullptr);
  void answered(const Kind& kind, int status, const std::string& body, const Then& then);
  void create(const Kind& kind, const std::string& ns, Tree tree, Then then = nullptr);
  void patch(const Kind& kind, const std::string& ns, const std::string& name, const Tree& patch, const char* sub = "",
             const char* how = "application/merge-patch+json");
  void remove(const Kind& kind, const std::string& ns, const std::string& name);
  void let_go(const Ref<Object>& object);
  void command(CommandBody body);
  const Kind* kind_of(const std::string& type) const;

  Tree metadata(const std::string& name, bool held = false);
  Tree pod_spec(bool lasting, const char* restart);
  Tree pod_template(const std::string& app, bool lasting, const char* restart);
  Tree workload_tree(const Kind& kind, const std::string& name);
  std::string some_namespace();
  Ref<Object> some(const std::string& type);

  World& world_;
  SimApi& api_;
  Ledger& ledger_;
  WorkloadChecker& checker_;
  Rng dice_;
  std::uint64_t world_commands_ = 0, sent_ = 0, answered_ = 0, serial_ = 0;
  int step_ = 0;
  bool tearing_ = false, settling_ = false;
  std::map<std::string, std::uint64_t> counted_, tried_;  // increments of each counter: answered, sent
};

}  // namespace lockstep::sim
