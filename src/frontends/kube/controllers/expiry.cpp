// What goes by itself when its time has come: Jobs that have ended (ttlSecondsAfterFinished), events after an hour, and
// the oldest pods that have ended, when there are very many.
// Source: kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished and …/pods/pod-lifecycle, "Garbage
// collection of Pods".
#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kExpiringJobs = "jobs.batch", kExpiringEvents = "events";
constexpr Duration kEventLife = hours(1);
constexpr std::uint64_t kEventsMost = 20'000, kEventBytesMost = 64 << 20;  // of a namespace
constexpr std::size_t kEndedPodsMost = 12'500, kPodsExpiredAtOnce = 200;
const ObjectKey kAllPods{"pods", "", ""};  // looked at together

WallTime stamp_in(const json::value& value, std::string_view key) {
  return parse_timestamp(text_in(value, key)).value_or(WallTime{});
}

// Removes the object at the time, or says when to look again.
void expire(const ObjectView& view, Instant now, const Object& object, WallTime when, Wishes& out) {
  if (when > wall_time(view, now))
    return out.look_again(instant_of(view, when));
  out.add(RemoveObject{object.type, object.meta.ns, object.meta.name, object.meta.seq});
}

// When it ended; 0: it has not.
WallTime end_of_job(const json::object& body) {
  if (const json::object* status = member_object(body, "status"))
    for (const char* type : {"Complete", "Failed"})
      if (has_condition(*status, type))
        return stamp_in(*find_condition(*status, type), "lastTransitionTime");
  return {};
}

class Expiry final : public Reconciler {
 public:
  std::string_view name() const override { return "expiry"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kExpiringJobs || changed.type == kExpiringEvents)
      out.push_back(key_of(changed));
    else if (changed.type == kPodType && !changed.ended.empty())
      out.push_back(kAllPods);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    if (key == kAllPods)
      return expire_pods(view, out);
    const auto object = view.find(std::get<0>(key), std::get<1>(key), std::get<2>(key));
    if (!object || is_deleting(*object))
      return;
    const json::object body = body_of(*object);
    if (object->type == kExpiringJobs) {
      const std::int64_t life = whole_in(part(body, "spec"), "ttlSecondsAfterFinished", -1);
      if (const WallTime ended = end_of_job(body); life >= 0 && ended)
        expire(view, now, *object, {ended.us + seconds(life).us}, out);
      return;
    }
    WallTime last = std::max(stamp_in(body, "lastTimestamp"), stamp_in(part(body, "series"), "lastObservedTime"));
    last = std::max({last, stamp_in(body, "eventTime"), stamp_in(part(body, "metadata"), "creationTimestamp")});
    expire(view, now, *object, {last.us + kEventLife.us}, out);
  }

 private:
  static void expire_pods(const ObjectView& view, Wishes& out) {
    std::vector<Ref<Object>> ended;
    const auto& objects = view.objects();
    for (auto at = objects.lower_bound(kAllPods); at != objects.end() && std::get<0>(at->first) == kPodType; ++at)
      if (!at->second->ended.empty() && !is_deleting(*at->second))
        ended.push_back(at->second);
    if (ended.size() <= kEndedPodsMost)
      return;
    std::ranges::sort(ended, {}, [](const Ref<Object>& pod) { return pod->meta.created; });
    ended.resize(std::min(ended.size() - kEndedPodsMost, kPodsExpiredAtOnce));
    for (const Ref<Object>& pod : ended) out.add(RemoveObject{pod->type, pod->meta.ns, pod->meta.name, pod->meta.seq});
  }
};

}  // namespace

ObjectShares shares_of_kinds(ObjectShares shares) {
  shares.apart[std::string(kExpiringEvents)] = {
      .objects_max = kEventsMost, .bytes_max = kEventBytesMost, .newest_stay = true};
  return shares;
}

std::shared_ptr<const Reconciler> expiry_controller() { return std::make_shared<Expiry>(); }

}  // namespace lockstep::kube
