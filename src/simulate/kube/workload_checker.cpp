#include "simulate/kube/workload_checker.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::sim {

namespace {

namespace json = boost::json;
using kube::body_of;
using kube::part;
using kube::text_in;
using kube::whole_in;

ObjectKey key_of_object(const Object& object) { return {object.type, object.meta.ns, object.meta.name}; }

bool holds(const Object& object) { return kube::has_finalizer(object, kHold); }

std::int64_t replicas_of(const json::object& body) { return whole_in(part(body, "spec"), "replicas", 1); }

std::int64_t at_rest_number(const json::object& body, std::string_view key) {
  return whole_in(part(body, "status"), key, 0);
}

// Of the pod's own job, as long as it shows one.
JobId job_of(const Object& pod) {
  for (const Shown& shown : pod.shows)
    if (shown.kind == Kind::kJob)
      return shown.job;
  return {};
}

// The node that a DaemonSet's pod is made for.
std::string wanted_node(const Object& pod) {
  const json::object body = body_of(pod);
  const std::string named = text_in(part(body, "spec"), "nodeName");
  if (!named.empty())
    return named;
  const json::value& terms = part(part(part(part(part(body, "spec"), "affinity"), "nodeAffinity"),
                                       "requiredDuringSchedulingIgnoredDuringExecution"),
                                  "nodeSelectorTerms");
  if (!terms.is_array())
    return {};
  for (const json::value& term : terms.get_array())
    if (const json::array* fields = kube::member_array(term, "matchFields"))
      for (const json::value& field : *fields)
        if (const json::array* values = kube::member_array(field, "values"); values && values->size() == 1)
          return std::string(kube::text_of(values->front()));
  return {};
}

}  // namespace

Ref<Object> WorkloadChecker::by_uid(Uid uid) const {
  const auto key = by_uid_.find(uid);
  if (key == by_uid_.end())
    return nullptr;
  const auto at = ledger_.tables().objects.find(key->second);
  return at == ledger_.tables().objects.end() ? nullptr : at->second;
}

std::vector<Ref<Object>> WorkloadChecker::pods_of(Uid owner) const {
  std::vector<Ref<Object>> out;
  const auto& objects = ledger_.tables().objects;
  const Ref<Object> set = by_uid(owner);
  if (!set)
    return out;
  // What it selects no more is about to be released, and does not count.
  const json::object body = body_of(*set);
  const kube::LabelSelector selector = kube::selector_in(part(body, "spec"));
  for (auto at = objects.lower_bound({"pods", "", ""}); at != objects.end() && std::get<0>(at->first) == "pods"; ++at) {
    const OwnerRef* ref = kube::controller_ref(*at->second);
    if (ref && ref->uid == owner && kube::selects(selector, *at->second) &&
        kube::read_pod(at->second, ledger_.tables()).active())
      out.push_back(at->second);
  }
  return out;
}

void WorkloadChecker::saw(const Ledger::Entry& entry) {
  const Object* before = entry.before.get();
  const Object* after = entry.after.get();
  if (before && after && before->meta.uid != after->meta.uid)
    verdict_.fail(format("{} became another object without going", after->meta.name));
  if (before && !after) {
    by_uid_.erase(before->meta.uid);
    if (before->type == "namespaces")
      for (const auto& [key, object] : ledger_.tables().objects)
        if (object->meta.ns.get() == before->meta.name)
          verdict_.fail(
              format("namespace {} went, and {} {} is inside", before->meta.name, object->type, object->meta.name));
  }
  if (before)
    check_finalizer(*before, after);
  if (after)
    by_uid_[after->meta.uid] = key_of_object(*after);
  if (after && !before)
    made(*after);
  if (after && after->type == "replicasets.apps")
    check_surge(before, *after);
  if (after && before && after->type == "poddisruptionbudgets.policy")
    check_budget(*before, *after);
  if (entry.object().type == "pods") {
    if (after) {
      check_node(*after);
      if (after->meta.name.find("sta") == 0 && kube::read_pod(entry.after, ledger_.tables()).ready)
        were_ready_.insert(after->meta.uid);
    }
    note_work(entry);
  }
}

void WorkloadChecker::made(const Object& object) {
  const auto& objects = ledger_.tables().objects;
  if (strict_ && !object.meta.ns.get().empty()) {
    const auto around = objects.find({"namespaces", "", object.meta.ns.get()});
    if (around == objects.end())
      verdict_.fail(format("{} {} was made in {}, which is gone", object.type, object.meta.name, object.meta.ns));
    else if (kube::is_deleting(*around->second) && object.type != "events")
      verdict_.fail(format("{} {} was made in {}, which is going", object.type, object.meta.name, object.meta.ns));
  }
  check_quota(object);
  if (object.type == "pods")
    pod_made(object);
}

void WorkloadChecker::pod_made(const Object& pod) {
  ++pods_made_;
  const auto last = work_.find(key_of_object(pod));
  if (last != work_.end())
    if (const Job* job = ledger_.tables().job(last->second); job && !is_final(job->state))
      verdict_.fail(
          format("pod {} was made, and job {} of the one before it has not ended", pod.meta.name, job->id.value));
  const OwnerRef* ref = kube::controller_ref(pod);
  const Ref<Object> owner = ref ? by_uid(ref->uid) : nullptr;
  if (!ref)
    return;
  if (!owner)
    return verdict_.fail(format("pod {} was made for {}, which is gone", pod.meta.name, ref->name));
  const json::object body = body_of(*owner);
  std::int64_t most = INT64_MAX;
  if (owner->type == "replicasets.apps" || owner->type == "replicationcontrollers")
    most = replicas_of(body);
  else if (owner->type == "jobs.batch")
    most = whole_in(part(body, "spec"), "parallelism", 1);
  const auto have = static_cast<std::int64_t>(pods_of(owner->meta.uid).size());
  if (have > most)
    verdict_.fail(format("{} {} asks for {} pods and has {}", owner->type, owner->meta.name, most, have));
  if (owner->type == "statefulsets.apps")
    check_members(*owner, pod);
  if (owner->type == "daemonsets.apps")
    check_one_per_node(*owner);
}

// One after the other: each waits until those before it are ready.
void WorkloadChecker::check_members(const Object& set, const Object& pod) {
  const json::object body = body_of(set);
  const auto number = parse_uint(std::string_view(pod.meta.name).substr(set.meta.name.size() + 1));
  if (!number || static_cast<std::int64_t>(*number) >= replicas_of(body))
    return verdict_.fail(format("{} asks for {} pods and got {}", set.meta.name, replicas_of(body), pod.meta.name));
  if (text_in(part(body, "spec"), "podManagementPolicy") == "Parallel")
    return;
  for (std::uint64_t i = 0; i < *number; ++i) {
    const auto at = ledger_.tables().objects.find({"pods", set.meta.ns, format("{}-{}", set.meta.name, i)});
    if (at == ledger_.tables().objects.end() || !were_ready_.contains(at->second->meta.uid))
      return verdict_.fail(format("{} was made before {}-{} was ready", pod.meta.name, set.meta.name, i));
  }
}

void WorkloadChecker::check_one_per_node(const Object& set) {
  std::map<std::string, std::string> on;
  for (const Ref<Object>& pod : pods_of(set.meta.uid)) {
    const std::string node = wanted_node(*pod);
    if (const auto [at, fresh] = on.try_emplace(node, pod->meta.name); !fresh)
      verdict_.fail(format("{} has {} and {} for node {}", set.meta.name, at->second, pod->meta.name, node));
  }
}

void WorkloadChecker::note_work(const Ledger::Entry& entry) {
  const ObjectKey key = key_of_object(entry.object());
  if (entry.after) {
    if (const JobId job = job_of(*entry.after))
      work_[key] = job;
    else if (entry.before && job_of(*entry.before))
      work_.erase(key);  // by force: it goes at once, and its work when that can be stopped
  } else if (!job_of(*entry.before)) {
    work_.erase(key);
  }
}

void WorkloadChecker::check_node(const Object& pod) {
  const kube::PodRecords records = kube::records_of_pod(ledger_.tables(), pod);
  if (!records.node)
    return;
  const auto [at, fresh] = nodes_.try_emplace(pod.meta.uid, records.node->meta.name);
  if (!fresh && at->second != records.node->meta.name)
    verdict_.fail(format("pod {} was on {} and is on {}", pod.meta.name, at->second, records.node->meta.name));
}

void WorkloadChecker::check_finalizer(const Object& before, const Object* after) {
  if (holds(before) && !(after && holds(*after)) && !let_go_.contains(before.meta.uid))
    verdict_.fail(format("{} {} has lost a finalizer that nobody took off", before.type, before.meta.name));
}

// Where one set of a Deployment grows, all of them together keep to what it asks for and its surge.
void WorkloadChecker::check_surge(const Object* before, const Object& set) {
  const OwnerRef* ref = kube::controller_ref(set);
  const Ref<Object> owner = ref ? by_uid(ref->uid) : nullptr;
  if (!owner || owner->type != "deployments.apps")
    return;
  const std::int64_t now = replicas_of(body_of(set));
  if (now <= (before ? replicas_of(body_of(*before)) : 0))
    return;
  const json::object body = body_of(*owner);
  const std::int64_t wanted = replicas_of(body);
  const json::value& surge = part(part(part(part(body, "spec"), "strategy"), "rollingUpdate"), "maxSurge");
  const std::int64_t most = wanted + kube::amount_in(surge, wanted, kube::Round::kUp).value_or(0);
  std::int64_t all = 0;
  const auto& objects = ledger_.tables().objects;
  for (auto at = objects.lower_bound({set.type, set.meta.ns, ""});
       at != objects.end() && std::get<0>(at->first) == set.type && std::get<1>(at->first) == set.meta.ns.get(); ++at)
    if (const OwnerRef* other = kube::controller_ref(*at->second); other && other->uid == owner->meta.uid)
      all += replicas_of(body_of(*at->second));
  if (all > most)
    verdict_.fail(format("{} asks for {} pods, at most {}, and its sets for {}", owner->meta.name, wanted, most, all));
}

// Each eviction takes one from what was left.
void WorkloadChecker::check_budget(const Object& before, const Object& after) {
  const json::object was = body_of(before), is = body_of(after);
  const json::object* had = kube::member_object(part(was, "status"), "disruptedPods");
  const json::object* has = kube::member_object(part(is, "status"), "disruptedPods");
  if (!has)
    return;
  std::int64_t more = 0;
  for (const auto& [name, when] : *has) more += !had || !had->contains(name);
  const std::int64_t left = at_rest_number(was, "disruptionsAllowed"), now = at_rest_number(is, "disruptionsAllowed");
  if (more > 0 && (more > left || now != left - more))
    verdict_.fail(
        format("{} allowed {} disruptions, {} more were taken, and it allows {}", after.meta.name, left, more, now));
}

void WorkloadChecker::check_quota(const Object& made) {
  if (made.type != "pods" && made.type != "configmaps")
    return;
  const auto& objects = ledger_.tables().objects;
  const std::string type = "resourcequotas", ns = made.meta.ns;
  for (auto at = objects.lower_bound({type, ns, ""});
       at != objects.end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns; ++at) {
    const auto hard = parse_uint(text_in(part(part(body_of(*at->second), "spec"), "hard"), made.type));
    if (!hard)
      continue;
    std::uint64_t there = 0;
    for (auto one = objects.lower_bound({made.type, ns, ""});
         one != objects.end() && std::get<0>(one->first) == made.type && std::get<1>(one->first) == ns; ++one)
      there += made.type != "pods" || !kube::read_pod(one->second, ledger_.tables()).ended();
    if (there > *hard)
      verdict_.fail(format("quota {} allows {} {}, and there are {} since {} was made", at->second->meta.name, *hard,
                           made.type, there, made.meta.name));
  }
}

// --- at rest ---

// Pods first: why one of them is not as it should be explains what is said of its set.
std::string WorkloadChecker::unrest() const {
  const auto& objects = ledger_.tables().objects;
  for (auto at = objects.lower_bound({"pods", "", ""}); at != objects.end() && std::get<0>(at->first) == "pods"; ++at)
    if (std::string words = unrest_of(*at->second); !words.empty())
      return format("pod {}/{}: {}", at->second->meta.ns, at->second->meta.name, words);
  for (const auto& [key, object] : ledger_.tables().objects) {
    if (object->type == "events")
      continue;
    const auto& owners = object->meta.extra ? object->meta.extra->owners : std::vector<OwnerRef>();
    if (!owners.empty() &&
        std::ranges::none_of(owners, [&](const OwnerRef& one) { return by_uid(one.uid) != nullptr; }))
      return format("{} {} is there, and nobody that owns it", object->type, object->meta.name);
    if (kube::is_deleting(*object))
      return format("{} {} is being deleted", object->type, object->meta.name);
    if (std::string words = unrest_of(*object); !words.empty())
      return format("{} {}/{}: {}", object->type, object->meta.ns, object->meta.name, words);
  }
  return {};
}

std::string WorkloadChecker::unrest_of(const Object& object) const {
  const auto differs = [](const char* what, std::int64_t wanted, std::int64_t is) {
    return wanted == is ? std::string() : format("{} is {} and should be {}", what, is, wanted);
  };
  const std::string& type = object.type;
  const json::object body = body_of(object);
  const json::value& spec = part(body, "spec");
  std::string out;
  const auto pods = [&] { return static_cast<std::int64_t>(pods_of(object.meta.uid).size()); };
  const auto told = [&](const char* key, std::int64_t wanted) {
    if (out.empty())
      out = differs(key, wanted, at_rest_number(body, key));
  };
  if (type == "replicasets.apps" || type == "replicationcontrollers") {
    out = differs("the number of pods", replicas_of(body), pods());
    told("replicas", replicas_of(body));
    told("readyReplicas", replicas_of(body));
    told("observedGeneration", kube::generation_of(body));
  } else if (type == "deployments.apps") {
    told("observedGeneration", kube::generation_of(body));
    told("replicas", replicas_of(body));
    told("updatedReplicas", replicas_of(body));
    told("availableReplicas", replicas_of(body));
  } else if (type == "statefulsets.apps") {
    out = differs("the number of pods", replicas_of(body), pods());
    told("observedGeneration", kube::generation_of(body));
    told("readyReplicas", replicas_of(body));
    told("updatedReplicas", replicas_of(body));
  } else if (type == "daemonsets.apps") {
    const auto nodes = static_cast<std::int64_t>(ledger_.tables().nodes.size());
    out = differs("the number of pods", nodes, pods());
    told("observedGeneration", kube::generation_of(body));
    told("numberReady", nodes);
    told("updatedNumberScheduled", nodes);
  } else if (type == "jobs.batch") {
    const json::object* status = kube::member_object(body, "status");
    if (!status || !(kube::has_condition(*status, "Complete") || kube::has_condition(*status, "Failed")))
      out = "it has neither succeeded nor failed";
    else if (at_rest_number(body, "active") != 0 || pods() != 0)
      out = "it is over, and pods of it are active";
    else if (kube::has_condition(*status, "Complete"))
      told("succeeded", whole_in(spec, "completions", 1));
  } else if (type == "pods") {
    const auto pod = kube::read_pod(ledger_.tables().objects.at(key_of_object(object)), ledger_.tables());
    const Job* job = ledger_.tables().job(job_of(object));
    if (!pod.ended() && !pod.ready)
      out = format("it is neither ready nor over: {}, job {} in state {} on {}, {}",
                   json::serialize(part(body, "status")), job ? job->id.value : 0,
                   job ? static_cast<int>(job->state) : -1, pod.node, job ? job->end_reason.get() : "");
  } else if (type == "resourcequotas") {
    for (const char* what : {"pods", "configmaps"}) {
      std::uint64_t there = 0;
      for (const auto& [key, one] : ledger_.tables().objects)
        if (one->type == what && one->meta.ns == object.meta.ns)
          there += one->type != "pods" || !kube::read_pod(one, ledger_.tables()).ended();
      const auto used = parse_uint(text_in(part(part(body, "status"), "used"), what));
      if (used && *used != there && out.empty())
        out = format("it counts {} {}, and there are {}", *used, what, there);
    }
  }
  return out;
}

}  // namespace lockstep::sim
