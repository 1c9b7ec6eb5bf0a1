#include "simulate/kube/users.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/spec.h"
#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

namespace json = boost::json;
using kube::part;
using kube::text_in;

constexpr const char *kNamespaces[] = {"a", "b"}, *kPassing = "passing";
constexpr const char* kTiers[] = {"x", "y"};
constexpr std::int64_t kLasting = 100'000'000;
constexpr int kSteps = 8;

Caller root() { return {UserId{}, true}; }

}  // namespace

const KubeUsers::Kind KubeUsers::kConfigMap{"/api/v1", "configmaps", "configmaps", "v1", "ConfigMap"};
const KubeUsers::Kind KubeUsers::kPod{"/api/v1", "pods", "pods", "v1", "Pod"};
const KubeUsers::Kind KubeUsers::kReplicaSet{"/apis/apps/v1", "replicasets", "replicasets.apps", "apps/v1",
                                             "ReplicaSet"};
const KubeUsers::Kind KubeUsers::kDeployment{"/apis/apps/v1", "deployments", "deployments.apps", "apps/v1",
                                             "Deployment"};
const KubeUsers::Kind KubeUsers::kStatefulSet{"/apis/apps/v1", "statefulsets", "statefulsets.apps", "apps/v1",
                                              "StatefulSet"};
const KubeUsers::Kind KubeUsers::kDaemonSet{"/apis/apps/v1", "daemonsets", "daemonsets.apps", "apps/v1", "DaemonSet"};
const KubeUsers::Kind KubeUsers::kJob{"/apis/batch/v1", "jobs", "jobs.batch", "batch/v1", "Job"};
const KubeUsers::Kind KubeUsers::kBudget{"/apis/policy/v1", "poddisruptionbudgets", "poddisruptionbudgets.policy",
                                         "policy/v1", "PodDisruptionBudget"};
const KubeUsers::Kind KubeUsers::kQuota{"/api/v1", "resourcequotas", "resourcequotas", "v1", "ResourceQuota"};
const KubeUsers::Kind KubeUsers::kNamespace{"/api/v1", "namespaces", "namespaces", "v1", "Namespace"};
const KubeUsers::Kind KubeUsers::kDefinition{"/apis/apiextensions.k8s.io/v1", "customresourcedefinitions",
                                             "customresourcedefinitions.apiextensions.k8s.io",
                                             "apiextensions.k8s.io/v1", "CustomResourceDefinition"};
const KubeUsers::Kind KubeUsers::kThing{"/apis/sim.io/v1", "things", "things.sim.io", "sim.io/v1", "Thing"};

KubeUsers::KubeUsers(World& world, SimApi& api, Ledger& ledger, WorkloadChecker& checker)
    : world_(world),
      api_(api),
      ledger_(ledger),
      checker_(checker),
      dice_(world.settings.seed ^ 0x7573'6572),
      world_commands_(world.settings.commands) {}

// --- sending ---

std::string KubeUsers::path(const Kind& kind, const std::string& ns, const std::string& name, const char* sub) {
  std::string out = kind.prefix;
  if (!ns.empty())
    out += "/namespaces/" + ns;
  out += format("/{}", kind.plural);
  if (!name.empty())
    out += "/" + name;
  if (*sub)
    out += format("/{}", sub);
  return out;
}

void KubeUsers::send(const Kind& kind, KubeAsk ask, Then then) {
  world_.note(format("{} {} {}", ask.method, ask.path, ask.body.substr(0, 200)));
  api_.call(std::move(ask), {[this, &kind, then = std::move(then)](int status, const std::string& body) {
              answered(kind, status, body, then);
            }});
}

void KubeUsers::answered(const Kind& kind, int status, const std::string& body, const Then& then) {
  // Where two budgets keep a pod the real server answers so, too.
  const bool two_budgets = status == 500 && body.find("more than one PodDisruptionBudget") != body.npos;
  if (status == 400 || status == 415 || status == 422 || (status == 500 && !two_budgets) || status == 501)
    world_.verdict.fail(format("a request about {} was answered with {}: {}", kind.plural, status, body));
  if (status > 201)
    world_.note(format("refused: {}", body.substr(0, 300)));
  answered_ += status == 200 || status == 201;
  Tree tree;
  if (status != 0)
    if (json::value read = json::parse(body); read.is_object())
      tree = std::move(read.get_object());
  if ((status == 200 || status == 201) && version_told(tree) != 0 && text_in(tree, "kind") != "Status" &&
      !text_in(part(tree, "metadata"), "name").empty()) {
    const Ledger::Entry* entry = ledger_.entry_at(kind.type, version_told(tree));
    if (!(entry && !entry->after))  // the change let it go
      ledger_.check_told(kind.type, tree);
  }
  if (then)
    then(status, tree);
}

void KubeUsers::create(const Kind& kind, const std::string& ns, Tree tree, Then then) {
  tree["apiVersion"] = kind.api_version;
  tree["kind"] = kind.kind;
  send(kind, {"POST", path(kind, ns), {}, json::serialize(tree)}, std::move(then));
}

void KubeUsers::patch(const Kind& kind, const std::string& ns, const std::string& name, const Tree& patch,
                      const char* sub, const char* how) {
  KubeAsk ask{"PATCH", path(kind, ns, name, sub), {}, json::serialize(patch), how};
  if (std::string_view(how).find("apply") != std::string_view::npos)
    ask.query = {{"fieldManager", dice_.chance(0.5) ? "one" : "other"},
                 {"force", dice_.chance(0.5) ? "true" : "false"}};
  send(kind, std::move(ask));
}

void KubeUsers::remove(const Kind& kind, const std::string& ns, const std::string& name) {
  static const char* const kPolicies[] = {"Background", "Foreground", "Orphan"};
  Tree options{{"kind", "DeleteOptions"}, {"apiVersion", "v1"}};
  options["propagationPolicy"] = tearing_ ? "Background" : kPolicies[dice_.below(3)];
  if (&kind == &kPod || dice_.chance(0.2))
    options["gracePeriodSeconds"] = dice_.chance(0.2) ? 0 : dice_.between(1, 5);
  send(kind, {"DELETE", path(kind, ns, name), {}, json::serialize(options)});
}

// The operator's part: what the finalizer stood for is done.
void KubeUsers::let_go(const Ref<Object>& object) {
  const Kind* kind = kind_of(object->type);
  if (!kind || !kube::has_finalizer(*object, kHold))
    return;
  checker_.may_let_go(object->meta.uid);
  json::array others;
  for (const std::string& one : object->meta.extra->finalizers)
    if (one != kHold)
      others.push_back(json::string(one));
  patch(*kind, object->meta.ns, object->meta.name,
        {{"metadata", {{"finalizers", std::move(others)}, {"resourceVersion", format("{}", object->meta.seq)}}}});
}

void KubeUsers::command(CommandBody body) { world_.controller.call({root(), std::move(body)}, nullptr); }

const KubeUsers::Kind* KubeUsers::kind_of(const std::string& type) const {
  for (const Kind* kind : {&kConfigMap, &kPod, &kReplicaSet, &kDeployment, &kStatefulSet, &kDaemonSet, &kJob, &kBudget,
                           &kQuota, &kNamespace, &kDefinition, &kThing})
    if (type == kind->type)
      return kind;
  return nullptr;
}

// --- what they ask for ---

KubeUsers::Tree KubeUsers::metadata(const std::string& name, bool held) {
  Tree out{{"name", name}, {"labels", {{"tier", kTiers[dice_.below(2)]}}}};
  if (held)
    out["finalizers"] = json::array{kHold};
  return out;
}

KubeUsers::Tree KubeUsers::pod_spec(bool lasting, const char* restart) {
  json::array command{"sim", "steady", format("run={}", lasting ? kLasting : dice_.between(100, 30'000))};
  if (!lasting && dice_.chance(0.3))
    command.push_back(json::string(format("exit={}", dice_.between(1, 3))));
  if (dice_.chance(0.1))
    command.push_back("stubborn");
  Tree container{{"name", "c"}, {"image", "sim.io/work:1"}, {"command", std::move(command)}};
  Tree requests;
  if (dice_.chance(0.6))
    requests["cpu"] = format("{}m", dice_.between(1, 15) * 100);
  if (dice_.chance(0.1))
    requests["nvidia.com/gpu"] = "1";
  if (!requests.empty())
    container["resources"] = Tree{{"limits", requests}, {"requests", requests}};
  return {{"containers", json::array{std::move(container)}},
          {"restartPolicy", restart},
          {"terminationGracePeriodSeconds", dice_.between(1, 6)}};
}

KubeUsers::Tree KubeUsers::pod_template(const std::string& app, bool lasting, const char* restart) {
  return {{"metadata", {{"labels", {{"app", app}, {"tier", kTiers[dice_.below(2)]}}}}},
          {"spec", pod_spec(lasting, restart)}};
}

KubeUsers::Tree KubeUsers::workload_tree(const Kind& kind, const std::string& name) {
  Tree spec{{"selector", {{"matchLabels", {{"app", name}}}}}};
  if (&kind == &kJob) {
    spec = {{"completions", dice_.between(1, 4)},
            {"parallelism", dice_.between(1, 3)},
            {"backoffLimit", dice_.between(0, 4)}};
    if (dice_.chance(0.3))
      spec["completionMode"] = "Indexed";
    if (dice_.chance(0.3))
      spec["ttlSecondsAfterFinished"] = dice_.between(1, 60);
    Tree pods = pod_template(name, false, "Never");
    pods["metadata"].as_object()["labels"].as_object().erase("app");
    spec["template"] = std::move(pods);
  } else {
    spec["template"] = pod_template(name, true, "Always");
    if (&kind != &kDaemonSet)
      spec["replicas"] = dice_.between(0, 4);
    if (&kind == &kDeployment && dice_.chance(0.2))
      spec["strategy"] = Tree{{"type", "Recreate"}};
    if (&kind == &kStatefulSet) {
      spec["serviceName"] = name;
      if (dice_.chance(0.3))
        spec["podManagementPolicy"] = "Parallel";
    }
  }
  return {{"metadata", metadata(name, dice_.chance(0.05))}, {"spec", std::move(spec)}};
}

std::string KubeUsers::some_namespace() { return dice_.chance(0.1) ? kPassing : kNamespaces[dice_.below(2)]; }

// Anything of the type that is there now; null: nothing is.
Ref<Object> KubeUsers::some(const std::string& type) {
  const auto& objects = ledger_.tables().objects;
  std::vector<Ref<Object>> all;
  for (auto at = objects.lower_bound({type, "", ""}); at != objects.end() && std::get<0>(at->first) == type; ++at)
    all.push_back(at->second);
  return all.empty() ? nullptr : all[dice_.below(all.size())];
}

// --- what they do ---

void KubeUsers::start() { next(); }

void KubeUsers::next() {
  if (done())
    return;
  if (api_.up()) {
    one();
    ++sent_;
  }
  const bool burst = dice_.chance(0.4);
  world_.timeline.after(burst ? micros(dice_.between(10, 4'000)) : millis(dice_.between(1, 2'000)), [this] { next(); });
}

void KubeUsers::one() {
  const std::uint64_t dice = dice_.below(100);
  if (dice < 30)
    plain();
  else if (dice < 60)
    workload();
  else if (dice < 78)
    pod();
  else if (dice < 90)
    count();
  else if (dice < 93)
    whole_namespace();
  else if (dice < 95)
    node();
  else
    sbatch();
}

void KubeUsers::plain() {
  const bool thing = dice_.chance(0.3);
  const Kind& kind = thing ? kThing : kConfigMap;
  const std::string ns = some_namespace(), name = format("{}{}", thing ? "t" : "c", dice_.below(6));
  const std::string value = format("{}", ++serial_);
  const Tree data =
      thing ? Tree{{"spec", {{"size", static_cast<std::int64_t>(serial_)}}}} : Tree{{"data", {{"v", value}}}};
  switch (dice_.below(7)) {
    case 0:
    case 1: {
      Tree tree = data;
      tree["metadata"] = metadata(name, dice_.chance(0.2));
      if (dice_.chance(0.4))
        if (const Ref<Object> owner = some(dice_.chance(0.5) ? kConfigMap.type : kReplicaSet.type);
            owner && owner->meta.ns.get() == ns && owner->meta.name != name) {
          const bool of_maps = owner->type == kConfigMap.type;
          tree["metadata"].as_object()["ownerReferences"] =
              json::array{Tree{{"apiVersion", of_maps ? "v1" : "apps/v1"},
                               {"kind", of_maps ? "ConfigMap" : "ReplicaSet"},
                               {"name", owner->meta.name},
                               {"uid", kube::uid_text(owner->meta.uid)},
                               {"blockOwnerDeletion", dice_.chance(0.5)}}};
        }
      return create(kind, ns, std::move(tree));
    }
    case 2: return patch(kind, ns, name, data);
    case 3: {
      Tree tree = data;
      tree["apiVersion"] = kind.api_version;
      tree["kind"] = kind.kind;
      tree["metadata"] = Tree{{"name", name}};
      return patch(kind, ns, name, tree, "", "application/apply-patch+yaml");
    }
    case 4: {
      Tree tree = data;
      tree["metadata"] = Tree{{"labels", {{"tier", kTiers[dice_.below(2)]}}}};
      return patch(kind, ns, name, tree, "",
                   thing ? "application/merge-patch+json" : "application/strategic-merge-patch+json");
    }
    case 5:
      if (dice_.chance(0.1)) {
        KubeAsk all{"DELETE", path(kind, ns)};
        all.query["labelSelector"] = format("tier={}", kTiers[dice_.below(2)]);
        return send(kind, std::move(all));
      }
      return remove(kind, ns, name);
    default:
      if (const Ref<Object> held = some(kind.type); held && kube::is_deleting(*held))
        let_go(held);
      else
        look(kind, ns, name);
  }
}

// Nobody is shown an object as it was before what somebody had been told when he asked.
void KubeUsers::look(const Kind& kind, const std::string& ns, const std::string& name) {
  const Seq floor = ledger_.told();
  send(kind, {"GET", path(kind, ns, name)}, [this, &kind, ns, name, floor](int status, const Tree& told) {
    const ObjectKey key{kind.type, ns, name};
    const Seq then = ledger_.version_at(key, floor);
    if (status == 200 && version_told(told) < then)
      world_.verdict.fail(
          format("{} is shown in version {}, and version {} had been told of", name, version_told(told), then));
    if (status == 404 && then != 0 && !ledger_.went_since(key, floor) &&
        ledger_.tables().objects.contains({kNamespace.type, "", ns}))
      world_.verdict.fail(format("{} is not found, and version {} had been told of", name, then));
  });
}

void KubeUsers::workload() {
  static const Kind* const kKinds[] = {&kReplicaSet, &kDeployment, &kDeployment, &kStatefulSet, &kDaemonSet, &kJob};
  const Kind& kind = *kKinds[dice_.below(6)];
  const std::string name =
      format("{}{}", lower(std::string(kind.kind)).substr(0, 3), &kind == &kDaemonSet ? 0 : dice_.below(2));
  const Ref<Object> there = some(kind.type);
  if (!there || dice_.chance(0.25))
    return create(kind, some_namespace(), workload_tree(kind, name));
  const std::string ns = there->meta.ns, its = there->meta.name;
  if (kube::controller_ref(*there))
    return;  // a Deployment's set is not theirs to change
  const std::uint64_t dice = dice_.below(10);
  if (dice < 4 && &kind != &kDaemonSet && &kind != &kJob)
    return patch(kind, ns, its, {{"spec", {{"replicas", dice_.between(0, 5)}}}}, "scale");
  if (dice < 5 && &kind == &kDeployment)
    return patch(kind, ns, its, {{"spec", {{"paused", dice_.chance(0.5)}}}});
  if (dice < 7 && &kind != &kJob)
    return patch(kind, ns, its,
                 {{"spec", {{"template", {{"metadata", {{"annotations", {{"v", format("{}", ++serial_)}}}}}}}}}});
  if (dice < 8 && &kind == &kJob)
    return patch(kind, ns, its, {{"spec", {{"suspend", dice_.chance(0.5)}}}});
  if (dice < 9)
    return let_go(there);
  remove(kind, ns, its);
}

void KubeUsers::pod() {
  const Ref<Object> there = some(kPod.type);
  const std::uint64_t dice = dice_.below(10);
  if (!there || dice < 3) {
    Tree tree{{"metadata", metadata(format("p{}", dice_.below(6)))}};
    tree["spec"] = pod_spec(dice_.chance(0.3), "Never");
    if (dice_.chance(0.3)) {
      tree["metadata"].as_object().erase("name");
      tree["metadata"].as_object()["generateName"] = "g-";
    }
    return create(kPod, some_namespace(), std::move(tree));
  }
  const std::string ns = there->meta.ns, its = there->meta.name;
  if (dice < 5)
    return remove(kPod, ns, its);
  if (dice < 7) {
    const Tree eviction{
        {"apiVersion", "policy/v1"}, {"kind", "Eviction"}, {"metadata", {{"name", its}, {"namespace", ns}}}};
    return send(kPod, {"POST", path(kPod, ns, its, "eviction"), {}, json::serialize(eviction)});
  }
  if (dice < 8 && (its[0] == 'r' || its[0] == 'd' || its[0] == 'p'))  // it leaves its set, or comes to another one
    return patch(
        kPod, ns, its,
        {{"metadata",
          {{"labels",
            {{"app", dice_.chance(0.5) ? json::value("elsewhere") : json::value(format("rep{}", dice_.below(2)))}}}}}});
  if (dice < 9) {
    Tree tree{{"metadata", metadata(format("b{}", dice_.below(2)))}};
    tree["spec"] = Tree{
        {"minAvailable", dice_.between(0, 2)},
        {"selector", {{"matchLabels", {{"app", format("{}{}", dice_.chance(0.5) ? "rep" : "sta", dice_.below(2))}}}}}};
    return create(kBudget, ns, std::move(tree));
  }
  if (const Ref<Object> budget = some(kBudget.type); budget && dice_.chance(0.3))
    return remove(kBudget, budget->meta.ns, budget->meta.name);
  patch(kQuota, kNamespaces[dice_.below(2)], "q",
        {{"spec",
          {{"hard",
            {{"pods", format("{}", dice_.between(5, 25))}, {"configmaps", format("{}", dice_.between(3, 9))}}}}}});
}

// As every operator does it: what was read goes back with its version, and a conflict means another try.
void KubeUsers::count() {
  const std::string name = format("counter{}", dice_.below(2)), ns = kNamespaces[0];
  send(kConfigMap, {"GET", path(kConfigMap, ns, name)}, [this, name, ns](int status, const Tree& read) {
    if (status == 404 && !settling_) {
      if (counted_[name] > 0)
        world_.verdict.fail(format("{} counts {}, and is not there", name, counted_[name]));
      return create(kConfigMap, ns, {{"metadata", {{"name", name}}}, {"data", {{"n", "0"}}}});
    }
    if (status != 200)
      return;
    Tree tree = read;
    const std::uint64_t n = parse_uint(text_in(part(tree, "data"), "n")).value_or(0);
    tree["data"].as_object()["n"] = format("{}", n + 1);
    ++tried_[name];
    const Seq version = version_told(read);
    send(kConfigMap, {"PUT", path(kConfigMap, ns, name), {}, json::serialize(tree)},
         [this, name, version](int done, const Tree& now) {
           if (done != 200)
             return;
           ++counted_[name];
           const Ledger::Entry* entry = ledger_.entry_at(kConfigMap.type, version_told(now));
           if (entry && entry->before && entry->before->meta.seq != version)
             world_.verdict.fail(format("{} was written as version {} and replaced version {}", name, version,
                                        entry->before->meta.seq));
         });
  });
}

std::string KubeUsers::check_counters() const {
  for (const auto& [name, counted] : counted_) {
    const auto at = ledger_.tables().objects.find({kConfigMap.type, kNamespaces[0], name});
    const std::uint64_t n = at == ledger_.tables().objects.end()
                                ? 0
                                : parse_uint(text_in(part(kube::body_of(*at->second), "data"), "n")).value_or(0);
    const auto tried = tried_.find(name);
    const std::uint64_t most = tried == tried_.end() ? 0 : tried->second;
    if (n < counted || n > most)
      return format("{} is {}; {} increments were answered, {} were sent", name, n, counted, most);
  }
  return {};
}

void KubeUsers::whole_namespace() {
  if (const auto at = ledger_.tables().objects.find({kNamespace.type, "", kPassing});
      at != ledger_.tables().objects.end() && !kube::is_deleting(*at->second) && dice_.chance(0.5))
    return send(kNamespace, {"DELETE", path(kNamespace, "", kPassing)});
  create(kNamespace, "", {{"metadata", {{"name", kPassing}}}});
}

void KubeUsers::node() {
  UpdateNode update{.name = world_.nodes[dice_.below(world_.nodes.size())]->name()};
  update.drain = dice_.chance(0.4);
  update.reason = "sim";
  command(std::move(update));
}

void KubeUsers::sbatch() {
  auto spec = std::make_shared<JobSpec>();
  spec->name = format("s{}", ++serial_);
  const User* user = ledger_.tables().user("local", 1000);
  if (!user)
    return;
  spec->user = user->id;
  spec->requeue = dice_.chance(0.7);
  spec->requeue_set = true;
  spec->kill_wait = seconds(dice_.between(1, 6));
  spec->time_limit = seconds(dice_.between(10, 300));
  spec->work_dir = "/tmp";
  GroupSpec group;
  group.launch = Launch::kTasks;
  group.argv = {"sim", format("run={}", dice_.between(100, 60'000))};
  group.per_task.cores = static_cast<std::uint32_t>(dice_.between(1, 24));
  spec->groups.push_back(std::move(group));
  command(SubmitJob{.spec = std::move(spec)});
}

// --- before and after ---

void KubeUsers::prepare() {
  if (prepared())
    return;
  const auto passed = [this, step = step_](int status, const Tree&) {
    if (step == step_ && (status == 200 || status == 201 || status == 409))
      step_ = step + 1 == kSteps ? -1 : step + 1;
  };
  const auto commanded = [&](CommandBody body) {
    world_.controller.call({root(), std::move(body)},
                           [passed](const Result<Answer>& answer) { passed(answer.ok() ? 200 : 503, {}); });
  };
  if (step_ < 2) {
    User user;
    user.meta.name = step_ == 0 ? "root" : "user";
    user.uid = user.gid = step_ == 0 ? 0 : 1000;
    user.home = "/";
    commanded(PutUser{user});
  } else if (step_ == 2) {
    Partition partition;
    partition.meta.name = "main";
    partition.nodes = {"ALL"};
    partition.is_default = true;
    commanded(PutPartition{partition});
  } else if (step_ < 5) {
    create(kNamespace, "", {{"metadata", {{"name", kNamespaces[step_ - 3]}}}}, passed);
  } else if (step_ < 7) {
    create(kQuota, kNamespaces[step_ - 5],
           {{"metadata", {{"name", "q"}}}, {"spec", {{"hard", {{"pods", "25"}, {"configmaps", "9"}}}}}}, passed);
  } else {
    const Tree schema{
        {"openAPIV3Schema",
         {{"type", "object"},
          {"properties", {{"spec", {{"type", "object"}, {"properties", {{"size", {{"type", "integer"}}}}}}}}}}}};
    create(
        kDefinition, "",
        {{"metadata", {{"name", kThing.type}}},
         {"spec",
          {{"group", "sim.io"},
           {"scope", "Namespaced"},
           {"names", {{"plural", "things"}, {"singular", "thing"}, {"kind", "Thing"}, {"listKind", "ThingList"}}},
           {"versions", json::array{Tree{{"name", "v1"}, {"served", true}, {"storage", true}, {"schema", schema}}}}}}},
        passed);
  }
  world_.timeline.after(seconds(2), [this] { prepare(); });
}

void KubeUsers::settle() {
  if (tearing_)
    return;
  if (api_.up()) {
    for (const auto& [id, node] : ledger_.tables().nodes)
      if (node->drain)
        command(UpdateNode{.name = node->meta.name, .drain = false});
    settling_ = true;
    for (const char* ns : kNamespaces)
      patch(kQuota, ns, "q", {{"spec", {{"hard", {{"pods", "1000"}, {"configmaps", "1000"}}}}}});
    std::vector<Ref<Object>> all;
    for (const auto& [key, object] : ledger_.tables().objects) all.push_back(object);
    for (const Ref<Object>& object : all) {
      if (kube::is_deleting(*object))
        let_go(object);
      else if (object->type == kDeployment.type &&
               part(part(kube::body_of(*object), "spec"), "paused") == json::value(true))
        patch(kDeployment, object->meta.ns, object->meta.name, {{"spec", {{"paused", false}}}});
      else if (object->type == kJob.type && part(part(kube::body_of(*object), "spec"), "suspend") == json::value(true))
        patch(kJob, object->meta.ns, object->meta.name, {{"spec", {{"suspend", false}}}});
    }
  }
  world_.timeline.after(seconds(15), [this] { settle(); });
}

void KubeUsers::tear_down() {
  tearing_ = true;
  if (api_.up()) {
    std::vector<Ref<Object>> all;
    for (const auto& [key, object] : ledger_.tables().objects) all.push_back(object);
    for (const Ref<Object>& object : all) {
      if (kube::has_finalizer(*object, kHold))
        let_go(object);
      const std::string& name = object->meta.name;
      const bool ours = (object->type == kNamespace.type && (name == "a" || name == "b" || name == kPassing)) ||
                        object->type == kDefinition.type;
      if (ours && !kube::is_deleting(*object))
        remove(*kind_of(object->type), "", name);
    }
  }
  if (!left().empty())
    world_.timeline.after(seconds(10), [this] { tear_down(); });
}

std::string KubeUsers::left() const {
  for (const auto& [key, object] : ledger_.tables().objects)
    for (const char* ns : {kNamespaces[0], kNamespaces[1], kPassing})
      if (object->meta.ns.get() == ns || (object->type == kNamespace.type && object->meta.name == ns))
        return format("{} {}/{} is still there", object->type, object->meta.ns, object->meta.name);
  for (const auto& [id, job] : ledger_.tables().jobs)
    if (!is_final(job->state))
      return format("job {} ({}) has not ended", id.value, job->spec->name);
  for (const auto& node : world_.nodes)
    if (node->live_shims() > 0)
      return format("processes live on {}", node->name());
  return {};
}

}  // namespace lockstep::sim
