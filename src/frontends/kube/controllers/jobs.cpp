// Jobs: pods until so many have succeeded. Each pod is counted once: the status that counts it and the pod without its
// finalizer are written together, so there is nothing in between to remember.
// Source: kubernetes.io/docs/concepts/workloads/controllers/job.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/job_rules.h"
#include "frontends/kube/controllers/new_pod.h"
#include "frontends/kube/controllers/pod_ranks.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kJobKind{"jobs.batch", "batch/v1", "Job", "job-controller"};
constexpr const char* kOurManager = "kubernetes.io/job-controller";
constexpr const char *kComplete = "Complete", *kFailed = "Failed", *kSuspended = "Suspended",
                     *kFailureTarget = "FailureTarget", *kSuccessMet = "SuccessCriteriaMet";
constexpr std::size_t kSettledTogether = 60;  // pods, in one command
constexpr std::size_t kJobNameBaseMax = 58;   // of a generated name

// Why the Job is to end. Its pods go first.
struct JobEnd {
  bool success = false;
  std::string reason, message;
};

// One look at a Job that has not ended.
class JobLook {
 public:
  JobLook(const ObjectView& view, Instant now, Ref<Object> job, Wishes& out)
      : view_(view), now_(now), wall_(wall_time(view, now)), job_(std::move(job)), out_(out), tree_(whole_tree(*job_)) {
    if (const json::object* had = member_object(tree_, "status"))
      status_ = *had;
    spec_ = read_job_spec(part(tree_, "spec"));
  }

  void look() {
    if (!member_object(part(tree_, "spec"), "selector"))
      return give_selector();
    find_pods();
    count();
    if (text_at("startTime").empty() && !spec_.suspended)
      status_["startTime"] = time();
    find_end();
    if (end_)
      drop_active();
    else if (!is_deleting(*job_))
      manage();
    if (!end_)
      see_completions();
    settle();
    write();
  }

 private:
  std::string time() const { return time_text(now_, view_.wall_offset()); }
  std::string text_at(const char* key) const { return text_in(status_, key); }

  // The labels by which it knows its pods, unless its user has chosen others.
  void give_selector() {
    json::object& spec = tree_["spec"].as_object();
    const std::string uid = uid_text(job_->meta.uid);
    spec["selector"] = json::object{{"matchLabels", {{"batch.kubernetes.io/controller-uid", uid}}}};
    json::object& pod_template =
        spec["template"].is_object() ? spec["template"].get_object() : spec["template"].emplace_object();
    json::value& metadata = pod_template["metadata"];
    json::object& in = metadata.is_object() ? metadata.get_object() : metadata.emplace_object();
    json::value& all = in["labels"];
    json::object& labels = all.is_object() ? all.get_object() : all.emplace_object();
    // A Job without labels has those of its template.
    json::object& own = tree_["metadata"].as_object();
    const json::object* said = member_object(own, "labels");
    const bool shares_labels = !said || said->empty() || *said == labels;
    for (const char* key : {"controller-uid", "batch.kubernetes.io/controller-uid"}) labels[key] = uid;
    for (const char* key : {"job-name", "batch.kubernetes.io/job-name"}) labels[key] = job_->meta.name;
    if (shares_labels)
      own["labels"] = labels;
    out_.add(PutObject{in_place_of(*job_, std::move(tree_)), job_->meta.seq});
  }

  // --- what there is ---

  void find_pods() {
    const LabelSelector selector = selector_in(part(tree_, "spec"));
    for (const Ref<Object>& pod : claim(
             view_, *job_, kJobKind, selector, kPodType, out_, [](const Object&) { return true; }, kJobFinalizer)) {
      pods_.push_back(view_.pod(pod->meta.ns.get(), pod->meta.name));
      if (pods_.back()->active())
        active_.push_back(pods_.back());
      else if (!pods_.back()->ended())
        ++terminating_;
    }
  }

  std::int64_t completions() const { return spec_.completions.value_or(INT64_MAX); }
  bool is_counted(const PodReading& pod) const { return !has_finalizer(*pod.object, kJobFinalizer); }
  bool has_index(const PodReading& pod) const { return !spec_.indexed || index_of(pod, completions()); }

  void count() {
    succeeded_ = whole_in(status_, "succeeded", 0);
    failed_ = whole_in(status_, "failed", 0);
    if (spec_.indexed) {
      counted_indexes_ = read_indexes(text_at("completedIndexes"), completions());
      done_indexes_ = counted_indexes_;
      failed_indexes_ = read_indexes(text_at("failedIndexes"), completions());
    }
    for (const auto& pod : pods_) {
      if (is_counted(*pod) || !has_index(*pod))
        continue;
      if (pod->phase == PodReading::Phase::kSucceeded) {
        ++succeeded_;
        if (spec_.indexed)
          done_indexes_.insert(*index_of(*pod, completions()));
      } else if (has_failed(*pod, spec_)) {
        const FailureVerdict verdict = judge_failure(*pod, spec_);
        failed_ += verdict.counts;
        if (spec_.indexed && spec_.backoff_limit_per_index &&
            (verdict.fails_index ||
             (verdict.counts && index_failures(*pod, kIndexFailures) >= *spec_.backoff_limit_per_index)))
          failed_indexes_.insert(*index_of(*pod, completions()));
      }
    }
    if (spec_.indexed)
      succeeded_ = static_cast<std::int64_t>(done_indexes_.size());
    find_replaced();
  }

  // With limits for each index: its last failed pod is kept until another one carries its count on.
  void find_replaced() {
    if (!spec_.indexed || !spec_.backoff_limit_per_index)
      return;
    IntervalSet settled = done_indexes_;
    for (const Interval& part : failed_indexes_.intervals()) settled.insert(part.low, part.high);
    for (const auto& pod : active_)
      if (const auto index = index_of(*pod, completions()))
        settled.insert(*index);
    const auto failures = [](const PodReading& pod) {
      return index_failures(pod, kIndexFailures) + index_failures(pod, kIndexIgnored);
    };
    for (const auto& pod : pods_) {
      const auto index = index_of(*pod, completions());
      if (is_counted(*pod) || !index || settled.contains(*index) || !has_failed(*pod, spec_))
        continue;
      auto& last = to_replace_[*index];
      if (!last || (failures(*last) <= failures(*pod) && end_of(*pod) >= end_of(*last)))
        last = pod;
    }
  }

  // --- whether it is to end ---

  void end_failed(const char* reason, std::string message) { end_ = JobEnd{false, reason, std::move(message)}; }

  void find_end() {
    for (const auto& [type, success] : {std::pair{kSuccessMet, true}, {kFailureTarget, false}})
      if (const json::value* told = find_condition(status_, type); told && !end_ && text_in(*told, "status") == "True")
        end_ = JobEnd{success, text_in(*told, "reason"), text_in(*told, "message")};
    if (end_)
      return;
    if (spec_.failure_policy)
      for (const auto& pod : pods_)
        if (has_failed(*pod, spec_))
          if (auto verdict = judge_failure(*pod, spec_); verdict.fails_job)
            return end_failed("PodFailurePolicy", std::move(*verdict.fails_job));
    if (failed_ > spec_.backoff_limit || restarted_too_often())
      return end_failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    if (is_overdue())
      return end_failed("DeadlineExceeded", "Job was active longer than specified deadline");
    if (!spec_.indexed)
      return;
    const auto failed = static_cast<std::int64_t>(failed_indexes_.size());
    if (spec_.backoff_limit_per_index && spec_.failed_indexes_max && failed > *spec_.failed_indexes_max)
      return end_failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes");
    if (spec_.backoff_limit_per_index && failed > 0 && failed + succeeded_ >= *spec_.completions)
      return end_failed("FailedIndexes", "Job has failed indexes");
    if (auto met = met_success_policy(spec_, done_indexes_))
      end_ = JobEnd{true, "SuccessPolicy", std::move(*met)};
  }

  bool restarted_too_often() const {
    if (!spec_.restarts_on_failure)
      return false;
    std::int64_t restarts = 0;
    for (const auto& pod : pods_)
      if (pod->phase == PodReading::Phase::kRunning || pod->phase == PodReading::Phase::kPending)
        for (const PodReading::Container& one : pod->containers) restarts += one.restarts;
    return spec_.backoff_limit == 0 ? restarts > 0 : restarts >= spec_.backoff_limit;
  }

  bool is_overdue() {
    const auto started = parse_timestamp(text_at("startTime"));
    if (!spec_.deadline_seconds || !started || spec_.suspended)
      return false;
    const WallTime due{started->us + seconds(*spec_.deadline_seconds).us};
    if (due <= wall_)
      return true;
    out_.look_again(instant_of(view_, due));
    return false;
  }

  void see_completions() {
    const bool complete = spec_.completions ? succeeded_ >= *spec_.completions && active_count() == 0
                                            : succeeded_ > 0 && active_count() == 0;
    if (complete) {
      end_ = JobEnd{true, "CompletionsReached", "Reached expected number of succeeded pods"};
      return;
    }
    if (is_deleting(*job_))
      return;
    if (spec_.suspended) {
      if (tell(kSuspended, "True", "JobSuspended", "Job suspended"))
        wish_event(out_, view_, now_, *job_, kJobKind, kNormal, "Suspended", "Job suspended");
    } else if (find_condition(status_, kSuspended) && tell(kSuspended, "False", "JobResumed", "Job resumed")) {
      wish_event(out_, view_, now_, *job_, kJobKind, kNormal, "Resumed", "Job resumed");
      status_["startTime"] = time();
    }
  }

  // --- making and dropping pods ---

  std::int64_t active_count() const { return static_cast<std::int64_t>(active_.size() + made_ - dropped_.size()); }

  void drop_active() {
    for (const auto& pod : active_) dropped_.push_back(pod);
  }

  void manage() {
    if (spec_.suspended)
      return drop_active();
    const auto active = static_cast<std::int64_t>(active_.size());
    const std::int64_t wanted = spec_.completions
                                    ? std::clamp<std::int64_t>(*spec_.completions - succeeded_, 0, spec_.parallelism)
                                : succeeded_ > 0 ? active
                                                 : spec_.parallelism;
    choose_dropped(static_cast<std::size_t>(std::max<std::int64_t>(0, active - wanted)));
    if (!dropped_.empty())
      return;
    const std::int64_t missing = wanted - active - (spec_.replaces_failed_only ? terminating_ : 0);
    if (missing <= 0 || !takes_new_objects(view_, job_->meta.ns))
      return;
    if (!spec_.backoff_limit_per_index)
      if (const WallTime ready = pause_end(); ready > wall_)
        return out_.look_again(instant_of(view_, ready));
    make(missing);
  }

  // Those without an index of their own first, then as many as there are too many.
  void choose_dropped(std::size_t at_least) {
    Pods left = active_;
    rank_for_deletion(left, {}, wall_);
    if (spec_.indexed) {
      IntervalSet taken;
      Pods alone;
      for (auto at = left.rbegin(); at != left.rend(); ++at) {  // the one that is missed most keeps the index
        const auto index = index_of(**at, completions());
        if (!index || taken.contains(*index)) {
          dropped_.push_back(*at);
          continue;
        }
        taken.insert(*index);
        alone.insert(alone.begin(), *at);
      }
      left = std::move(alone);
    }
    for (std::size_t i = 0; dropped_.size() < at_least && i < left.size(); ++i) dropped_.push_back(left[i]);
  }

  // When the pause after the failures since the last success is over. 0: there were none.
  WallTime pause_end() const {
    WallTime success, last;
    for (const auto& pod : pods_)
      if (pod->phase == PodReading::Phase::kSucceeded)
        success = std::max(success, end_of(*pod));
    std::int64_t failures = 0;
    for (const auto& pod : pods_)
      if (has_failed(*pod, spec_) && end_of(*pod) > success) {
        ++failures;
        last = std::max(last, end_of(*pod));
      }
    return failures == 0 ? WallTime{} : WallTime{last.us + pause_after(failures).us};
  }

  void make(std::int64_t missing) {
    NewPods made(view_, now_, *job_, kJobKind, out_);
    if (made.must_wait(spec_.parallelism, succeeded_, out_))
      return;
    json::value pod_template = part(part(tree_, "spec"), "template");
    std::optional<std::string> refused;
    if (!spec_.indexed) {
      for (; missing > 0 && !refused && !made.full(); --missing)
        refused = made.add(tracked(pod_from_template(pod_template, *job_, kJobKind)));
    } else {
      IntervalSet taken = done_indexes_;
      for (const Interval& part : failed_indexes_.intervals()) taken.insert(part.low, part.high);
      for (const auto& pod : pods_)
        if (pod->active() || (spec_.replaces_failed_only && !pod->ended()))
          if (const auto index = index_of(*pod, completions()))
            taken.insert(*index);
      std::uint32_t index = 0;
      for (const auto end = static_cast<std::uint32_t>(std::min<std::int64_t>(completions(), UINT32_MAX));
           index < end && missing > 0 && !refused && !made.full(); ++index) {
        if (taken.contains(index))
          continue;
        --missing;
        if (is_pausing(index))
          continue;
        refused = made.add(tracked(indexed_pod(pod_template, index)));
      }
    }
    made_ = made.made();
    made.wish(out_);
    if (refused)
      wish_failed_create(out_, view_, now_, *job_, kJobKind, *refused, {});
  }

  bool is_pausing(std::uint32_t index) {
    const auto last = to_replace_.find(index);
    if (last == to_replace_.end())
      return false;
    const PodReading& pod = *last->second;
    const std::int64_t failures = index_failures(pod, kIndexFailures) + index_failures(pod, kIndexIgnored) + 1;
    const WallTime ready{end_of(pod).us + pause_after(failures).us};
    if (ready <= wall_)
      return false;
    out_.look_again(instant_of(view_, ready));
    return true;
  }

  static json::object tracked(json::object pod) {
    json::value& finalizers = pod["metadata"].as_object()["finalizers"];
    (finalizers.is_array() ? finalizers.get_array() : finalizers.emplace_array()).emplace_back(kJobFinalizer);
    return pod;
  }

  json::object indexed_pod(const json::value& pod_template, std::uint32_t index) const {
    json::object pod = pod_from_template(pod_template, *job_, kJobKind);
    json::object& metadata = pod["metadata"].as_object();
    const std::string number = std::to_string(index);
    for (const char* words : {"labels", "annotations"}) {
      json::value& all = metadata[words];
      (all.is_object() ? all.get_object() : all.emplace_object())[kIndexKey] = number;
    }
    if (spec_.backoff_limit_per_index)
      carry_failures(metadata["annotations"].as_object(), index);
    const std::string behind = "-" + number + "-";
    metadata["generateName"] = job_->meta.name.substr(0, kJobNameBaseMax - behind.size()) + behind;
    json::value& spec = pod["spec"];
    if (!spec.is_object())
      return pod;
    spec.get_object()["hostname"] = job_->meta.name + "-" + number;
    for (const char* list : {"initContainers", "containers"})
      if (json::value* all = spec.get_object().if_contains(list); all && all->is_array())
        for (json::value& container : all->get_array()) tell_index(container);
    return pod;
  }

  static void tell_index(json::value& container) {
    constexpr const char* kVariable = "JOB_COMPLETION_INDEX";
    if (!container.is_object())
      return;
    json::value& env = container.get_object()["env"];
    json::array& all = env.is_array() ? env.get_array() : env.emplace_array();
    if (std::ranges::any_of(all, [&](const json::value& one) { return text_in(one, "name") == kVariable; }))
      return;
    const std::string path = format("metadata.labels['{}']", kIndexKey);
    all.push_back({{"name", kVariable}, {"valueFrom", {{"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", path}}}}}});
  }

  void carry_failures(json::object& annotations, std::uint32_t index) const {
    std::int64_t failures = 0, ignored = 0;
    if (const auto last = to_replace_.find(index); last != to_replace_.end()) {
      const bool counts = judge_failure(*last->second, spec_).counts;
      failures = index_failures(*last->second, kIndexFailures) + counts;
      ignored = index_failures(*last->second, kIndexIgnored) + !counts;
    }
    annotations[kIndexFailures] = std::to_string(failures);
    if (ignored > 0)
      annotations[kIndexIgnored] = std::to_string(ignored);
  }

  // --- what is written, all of it together ---

  bool is_dropped(const PodReading& pod) const {
    return std::ranges::any_of(dropped_, [&](const auto& one) { return one->object == pod.object; });
  }

  bool may_settle(const PodReading& pod) const {
    if (is_deleting(*job_) || end_ || pod.phase == PodReading::Phase::kSucceeded || is_dropped(pod))
      return true;
    if (!has_failed(pod, spec_))
      return false;
    const auto index = index_of(pod, completions());
    const auto last = index ? to_replace_.find(*index) : to_replace_.end();
    return last == to_replace_.end() || last->second->object != pod.object;
  }

  // Counts pods that have ended, and drops those that are too many.
  void settle() {
    std::int64_t succeeded = 0, failed = 0;
    for (const auto& pod : pods_) {
      const bool dropped = is_dropped(*pod);
      if (!dropped && (is_counted(*pod) || !may_settle(*pod)))
        continue;
      if (settled_ == kSettledTogether) {
        more_to_settle_ = true;
        break;
      }
      ++settled_;
      if (!is_counted(*pod) && has_index(*pod)) {
        if (pod->phase == PodReading::Phase::kSucceeded) {
          ++succeeded;
          if (spec_.indexed)
            counted_indexes_.insert(*index_of(*pod, completions()));
        } else if (has_failed(*pod, spec_)) {
          failed += judge_failure(*pod, spec_).counts;
        } else if (end_ && !end_->success) {
          ++failed;  // it goes with the Job that has failed
        }
      }
      if (!is_counted(*pod))
        pod_bodies_.emplace_back(PutObject{without_finalizer(*pod->object, kJobFinalizer), pod->object->meta.seq});
      if (!dropped)
        continue;
      const Object& object = *pod->object;
      pod_bodies_.emplace_back(
          RemoveObject{object.type, object.meta.ns, object.meta.name, is_counted(*pod) ? object.meta.seq : 0});
      pod_bodies_.emplace_back(PutObject{
          event_about(view_, now_, *job_, kJobKind, kNormal, "SuccessfulDelete", "Deleted pod: " + object.meta.name),
          0});
    }
    tell_count("failed", whole_in(status_, "failed", 0) + failed);
    if (!spec_.indexed)
      return tell_count("succeeded", whole_in(status_, "succeeded", 0) + succeeded);
    tell_count("succeeded", static_cast<std::int64_t>(counted_indexes_.size()));
    tell_indexes("completedIndexes", counted_indexes_, false);
    tell_indexes("failedIndexes", failed_indexes_, spec_.backoff_limit_per_index.has_value());
  }

  void tell_count(const char* key, std::int64_t count) {
    if (count != 0)
      status_[key] = count;
    else
      status_.erase(key);
  }

  void tell_indexes(const char* key, const IntervalSet& indexes, bool also_none) {
    if (!indexes.empty() || also_none)
      status_[key] = indexes_text(indexes);
    else
      status_.erase(key);
  }

  // Whether it was told otherwise before.
  bool tell(const char* type, const char* status, const std::string& reason, const std::string& message) {
    const json::value* had = find_condition(status_, type);
    if (had && text_in(*had, "status") == status && text_in(*had, "reason") == reason &&
        text_in(*had, "message") == message)
      return false;
    json::object told{
        {"type", type},     {"status", status},  {"lastProbeTime", time()}, {"lastTransitionTime", time()},
        {"reason", reason}, {"message", message}};
    json::value& conditions = status_["conditions"];
    json::array& all = conditions.is_array() ? conditions.get_array() : conditions.emplace_array();
    const auto at = std::ranges::find_if(all, [&](const json::value& one) { return text_in(one, "type") == type; });
    if (at == all.end())
      all.push_back(std::move(told));
    else
      *at = std::move(told);
    return true;
  }

  void write() {
    std::int64_t ready = 0;
    for (const auto& pod : active_) ready += pod->ready && !is_dropped(*pod);
    tell_count("active", active_count());
    status_["ready"] = ready;
    status_["terminating"] = terminating_ + static_cast<std::int64_t>(dropped_.size());
    if (!status_.contains("uncountedTerminatedPods"))
      status_["uncountedTerminatedPods"] = json::object();
    if (end_)
      tell_end();
    const json::object* had = member_object(tree_, "status");
    std::vector<CommandBody> bodies;
    if (!had || !same_json(*had, status_)) {
      tree_["status"] = status_;
      bodies.emplace_back(PutObject{in_place_of(*job_, std::move(tree_)), job_->meta.seq});
    }
    for (CommandBody& body : pod_bodies_) bodies.push_back(std::move(body));
    if (bodies.empty())
      return;
    CommandBody first = std::move(bodies.front());
    bodies.erase(bodies.begin());
    out_.add(std::move(first), resting_on(*job_), std::move(bodies));
  }

  // First what will be, then, when the last pod is gone, what is.
  void tell_end() {
    tell(end_->success ? kSuccessMet : kFailureTarget, "True", end_->reason, end_->message);
    if (more_to_settle_ || terminating_ > 0 || !dropped_.empty())
      return;
    tell(end_->success ? kComplete : kFailed, "True", end_->reason, end_->message);
    if (end_->success)
      status_["completionTime"] = time();
    wish_event(out_, view_, now_, *job_, kJobKind, end_->success ? kNormal : kWarning,
               end_->success ? "Completed" : end_->reason.c_str(), end_->success ? "Job completed" : end_->message);
  }

  const ObjectView& view_;
  const Instant now_;
  const WallTime wall_;
  const Ref<Object> job_;
  Wishes& out_;
  json::object tree_, status_;
  JobSpecReading spec_;
  Pods pods_, active_, dropped_;  // dropped_: active ones that go
  std::int64_t terminating_ = 0;  // are being deleted and have not ended
  std::size_t made_ = 0, settled_ = 0;
  bool more_to_settle_ = false;
  std::int64_t succeeded_ = 0, failed_ = 0;  // with those that are not counted yet
  IntervalSet counted_indexes_, done_indexes_, failed_indexes_;
  std::map<std::uint32_t, std::shared_ptr<const PodReading>> to_replace_;
  std::optional<JobEnd> end_;
  std::vector<CommandBody> pod_bodies_;
};

class JobController final : public Reconciler {
 public:
  std::string_view name() const override { return "jobs"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kJobKind.type) {
      out.push_back(key_of(changed));
      if (!view.find(kJobKind.type, changed.meta.ns.get(), changed.meta.name))
        for (const ObjectKey& key : view.dependents(changed.meta.uid))
          if (std::get<0>(key) == kPodType)
            out.push_back(key);
    } else if (changed.type == kPodType) {
      const std::size_t before = out.size();
      wake_owner(view, changed, kJobKind, out);
      if (out.size() == before && has_finalizer(changed, kJobFinalizer))
        out.push_back(key_of(changed));
    }
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto object = view.find(std::get<0>(key), std::get<1>(key), std::get<2>(key));
    if (!object)
      return;
    if (object->type == kPodType)
      return let_go(view, *object, out);
    const json::object body = body_of(*object);
    const json::object* status = member_object(body, "status");
    const std::string manager = text_in(part(body, "spec"), "managedBy");
    if ((!manager.empty() && manager != kOurManager) ||
        (status && (has_condition(*status, kComplete) || has_condition(*status, kFailed))))
      return;
    JobLook(view, now, object, out).look();
  }

 private:
  // A pod whose Job is gone is counted by nobody.
  static void let_go(const ObjectView& view, const Object& pod, Wishes& out) {
    const OwnerRef* ref = controller_ref(pod);
    const auto job = ref ? view.find(kJobKind.type, pod.meta.ns.get(), ref->name) : nullptr;
    if (has_finalizer(pod, kJobFinalizer) && !(job && job->meta.uid == ref->uid))
      wish_changed(out, without_finalizer(pod, kJobFinalizer), pod.meta.seq);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> job_controller() { return std::make_shared<JobController>(); }

}  // namespace lockstep::kube
