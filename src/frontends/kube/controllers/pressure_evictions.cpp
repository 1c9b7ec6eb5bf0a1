// Pods go from a node that runs short of memory, disk or processes, one after the other until it has enough: first
// those that use more than they asked for, of them the least important, of these those that are furthest above. Jobs
// of other front ends stay: what they hold was reserved for them.
// Source: kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction, "Pod selection for kubelet eviction".
//
// The node measures and says so in its record (model/node.h); the next pod goes when the last one has ended and the
// node has looked again since. All that follows from records, so it goes on behind a restart of either.
#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/quota.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kNodeAgent{"pods", "v1", "Pod", "kubelet"};
constexpr std::string_view kPressedNodes = "nodes";
constexpr const char* kEvictedReason = "Evicted";
constexpr std::int32_t kAtOnce = 9;
constexpr Duration kGrace = seconds(1);  // as kubelet gives under a hard threshold
// Who has much on the disk is not killed so soon: whoever ends it well removes that, too. A while later it is gone.
constexpr Duration kGraceOfDisk = seconds(10), kRemovalTakes = seconds(20);
constexpr Duration kMemoryTakes = seconds(3);  // until the kernel counts what has ended no more
constexpr Duration kLookAgain = seconds(1);
constexpr Duration kFirstMeasures = seconds(30);  // a controller that has just begun knows nothing of use so long

using Scarce = Shortage::What;

bool is_of_disk(Scarce what) { return what != Scarce::kMemory && what != Scarce::kProcesses; }

// What is to be relieved first: memory, before processes die of it.
const Shortage* worst_of(const Node& node) {
  for (const Shortage& one : node.shortages)
    if (one.acute)
      return &one;
  return nullptr;
}

struct Candidate {
  Ref<Object> pod;
  PodRecords records;
  json::object body;
  std::vector<ContainerUse> use;
  std::int64_t used = 0, requested = 0, priority = 0;
  // The least goes first.
  auto rank() const {
    return std::tuple(used <= requested, priority, requested - used, pod->meta.ns.get(), pod->meta.name);
  }
};

std::int64_t use_in(const ContainerUse& use, Scarce what) {
  return what == Scarce::kMemory ? use.memory : is_of_disk(what) ? std::max<std::int64_t>(0, use.disk) : 0;
}

std::int64_t request_of(const json::object& pod, Scarce what) {
  const Amounts requests = pod_sums(pod, "requests");
  const auto at = requests.find(what == Scarce::kMemory ? std::string_view("memory") : kEphemeralStorage);
  return what == Scarce::kProcesses || at == requests.end() ? 0 : at->second.whole();
}

// Each container that has more than it asked for, in kubelet's words.
std::string words_about(const Candidate& of, Scarce what) {
  std::string out;
  if (what == Scarce::kProcesses)
    return out;
  const std::string resource = starved_resource(what);
  for (const ContainerUse& use : of.use) {
    const json::value* container = container_named(of.body, use.container);
    const auto asked =
        container ? quantity_in(part(part(*container, "resources"), "requests"), resource) : std::nullopt;
    const std::int64_t used = use_in(use, what), requested = asked ? asked->whole() : 0;
    if (container && used > requested)
      out += format("Container {} was using {}, request is {}, has larger consumption of {}. ", use.container,
                    binary_quantity(used), asked ? asked->text() : "0", resource);
  }
  return out;
}

class PressureEvictions final : public Reconciler {
 public:
  explicit PressureEvictions(UseSource uses) : uses_(std::move(uses)) {}
  std::string_view name() const override { return "pressure evictions"; }

  void woken_by(const ObjectView&, const Object&, std::vector<ObjectKey>&) const override {}
  void woken_by_record(const ObjectView&, const Change& change, std::vector<ObjectKey>& out) const override {
    if (const auto* node = std::get_if<Ref<Node>>(&change.record); node && !change.removed && worst_of(**node))
      out.push_back({std::string(kPressedNodes), "", (*node)->meta.name});
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const Node* node = view.tables().node(std::get<2>(key));
    const Shortage* worst = node && node->link == NodeLink::kUp ? worst_of(*node) : nullptr;
    if (!worst)
      return;
    std::vector<Candidate> candidates;
    bool measured = true, waits = false;
    const auto& objects = view.objects();
    for (auto at = objects.lower_bound({std::string(kPodType), "", ""});
         at != objects.end() && std::get<0>(at->first) == kPodType; ++at) {
      const PodRecords records = records_of_pod(view.tables(), *at->second);
      if (!records.node || records.node->id != node->id)
        continue;
      const auto pod = view.pod(std::get<1>(at->first), std::get<2>(at->first));
      if (pod->reason == kEvictedReason || pod->deleting()) {
        waits = wait_for_end(view, *at->second, records, *worst, now, out) || waits;
        continue;
      }
      if (!pod->active() || !records.job || !records.task || is_final(records.job->state))
        continue;
      Candidate one{at->second, records, body_of(*at->second), {}};
      if (is_critical(one.body))
        continue;
      if (uses_)
        one.use = uses_(node->id, records.job->id);
      measured = measured && std::ranges::any_of(one.use, [&](const ContainerUse& use) {
                   return !is_of_disk(worst->what) || use.disk >= 0;
                 });
      for (const ContainerUse& use : one.use) one.used += use_in(use, worst->what);
      one.requested = request_of(one.body, worst->what);
      one.priority = integer_in(spec_of(one.body), "priority").value_or(0);
      candidates.push_back(std::move(one));
    }
    if (waits || candidates.empty())
      return;
    // Who has just begun has not been measured yet. In the end somebody has to go.
    if (!measured && now < worst->since + kFirstMeasures)
      return out.look_again(now + kLookAgain);
    evict(view, now, *std::ranges::min_element(candidates, {}, &Candidate::rank), *worst, out);
  }

 private:
  // One that has to go already makes room, or has just made some that the node's last look does not show. True: so it
  // is waited for.
  static bool wait_for_end(const ObjectView& view, const Object& pod, const PodRecords& records, const Shortage& worst,
                           Instant now, Wishes& out) {
    if (!records.job)
      return false;
    const bool disk = is_of_disk(worst.what);
    if (is_final(records.job->state))
      return records.job->ended + (disk ? kRemovalTakes : kMemoryTakes) >= worst.measured;
    out.look_again(now + kLookAgain);
    if (is_deleting(pod))
      return true;
    const json::object body = body_of(pod);
    const Instant since = instant_of(view, evicted_at(body));
    if (records.job->state == JobState::kCompleting && now >= since + (disk ? kGraceOfDisk : kGrace))
      out.add(CancelJob{.target = {records.job->id, {}}, .signal = kAtOnce},
              {.records = {{records.job->id, records.job->meta.seq}}});
    return true;
  }

  static WallTime evicted_at(const json::object& pod) {
    for (const json::value& one : list_in(part(pod, "status"), "conditions"))
      if (text_in(one, "type") == "DisruptionTarget")
        return parse_timestamp(text_in(one, "lastTransitionTime")).value_or(WallTime{});
    return {};
  }

  static void evict(const ObjectView& view, Instant now, const Candidate& one, const Shortage& worst, Wishes& out) {
    const std::string message = shortage_words(worst) + words_about(one, worst.what);
    Object gone = disrupted(*one.pod, time_text(now, view.wall_offset()), "TerminationByKubelet", message);
    json::object body = body_of(gone);
    json::object& status = body["status"].as_object();
    status["phase"] = "Failed";
    status["reason"] = kEvictedReason;
    status["message"] = message;
    std::vector<CommandBody> also{CancelJob{.target = {one.records.job->id, {}}}};
    if (takes_new_objects(view, one.pod->meta.ns))
      also.push_back(PutObject{event_about(view, now, *one.pod, kNodeAgent, kWarning, kEvictedReason, message), 0});
    out.add(PutObject{with_body(gone, body), one.pod->meta.seq}, {}, std::move(also));
    out.look_again(now + kGrace);
  }

  UseSource uses_;
};

}  // namespace

std::shared_ptr<const Reconciler> pressure_eviction_controller(UseSource uses) {
  return std::make_shared<PressureEvictions>(std::move(uses));
}

}  // namespace lockstep::kube
