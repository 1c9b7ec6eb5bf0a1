// CronJobs: a Job at each time of a schedule, named by that time, so that none is made twice.
// Source: kubernetes.io/docs/concepts/workloads/controllers/cron-jobs.
#include <algorithm>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/quota_ledger.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/cron_schedule.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kCronKind{"cronjobs.batch", "batch/v1", "CronJob", "cronjob-controller"};
constexpr std::string_view kCronJobType = "jobs.batch";
constexpr const char* kScheduledAt = "batch.kubernetes.io/cronjob-scheduled-timestamp";
constexpr int kMissedMost = 100;             // more missed times than these are told of
constexpr Duration kSlack = millis(100);     // behind the time, so that it has surely come
constexpr Duration kJobAgain = seconds(10);  // before a Job that could not be made is tried again
constexpr std::size_t kDeletionsMost = 100;  // of finished Jobs, in one look

struct ChildJob {
  Ref<Object> object;
  json::object body;
  bool complete = false, failed = false;

  bool finished() const { return complete || failed; }
  // Not made by hand ("kubectl create job --from").
  bool is_scheduled() const {
    return object->meta.extra && std::ranges::any_of(object->meta.extra->annotations,
                                                     [](const auto& one) { return one.first == kScheduledAt; });
  }
  std::string started() const { return text_in(part(body, "status"), "startTime"); }
};

class CronLook {
 public:
  CronLook(const ObjectView& view, Instant now, const Object& cron, Wishes& out)
      : view_(view), now_(now), wall_(wall_time(view, now)), cron_(cron), out_(out), body_(body_of(cron)) {
    if (const json::object* had = member_object(body_, "status"))
      status_ = *had;
  }

  void look() {
    find_children();
    see_ends();
    if (!is_deleting(cron_)) {
      if (takes_new_objects(view_, cron_.meta.ns))
        schedule();
      clean_up("successfulJobsHistoryLimit", &ChildJob::complete);
      clean_up("failedJobsHistoryLimit", &ChildJob::failed);
    }
    if (active_.empty())
      status_.erase("active");
    else
      status_["active"] = std::move(active_);
    wish_status(out_, cron_, body_, std::move(status_));
  }

 private:
  const json::value& spec() const { return part(body_, "spec"); }
  void event(const char* type, const char* reason, const std::string& message) {
    wish_event(out_, view_, now_, cron_, kCronKind, type, reason, message);
  }

  // --- the Jobs that there are ---

  void find_children() {
    for (const ObjectKey& key : view_.dependents(cron_.meta.uid)) {
      if (std::get<0>(key) != kCronJobType)
        continue;
      const auto job = view_.find(kCronJobType, std::get<1>(key), std::get<2>(key));
      if (!job || !controlled_by(*job, cron_))
        continue;
      ChildJob child{job, body_of(*job)};
      if (const json::object* status = member_object(child.body, "status")) {
        child.complete = has_condition(*status, "Complete");
        child.failed = has_condition(*status, "Failed");
      }
      children_.push_back(std::move(child));
    }
  }

  bool was_active(const Object& job) const {
    const json::array* had = member_array(status_, "active");
    return had && std::ranges::any_of(
                      *had, [&](const json::value& one) { return text_in(one, "uid") == uid_text(job.meta.uid); });
  }

  void see_ends() {
    for (const ChildJob& child : children_) {
      const Object& job = *child.object;
      if (!child.finished()) {
        if (was_active(job) || child.is_scheduled())
          active_.push_back(reference(job));
        else
          event(kWarning, "UnexpectedJob",
                format("Saw a job that the controller did not create or forgot: {}", job.meta.name));
        continue;
      }
      if (was_active(job))
        event(kNormal, "SawCompletedJob",
              format("Saw completed job: {}, condition: {}", job.meta.name, child.complete ? "Complete" : "Failed"));
      const std::string ended = text_in(part(child.body, "status"), "completionTime");
      const auto time = parse_timestamp(ended);
      const auto last = parse_timestamp(text_in(status_, "lastSuccessfulTime"));
      if (child.complete && time && (!last || *time > *last))
        status_["lastSuccessfulTime"] = ended;
    }
    if (const json::array* had = member_array(status_, "active"))
      for (const json::value& one : *had)
        if (std::ranges::none_of(children_, [&](const ChildJob& child) {
              return uid_text(child.object->meta.uid) == text_in(one, "uid");
            }))
          event(kNormal, "MissingJob", format("Active job went missing: {}", text_in(one, "name")));
  }

  json::object reference(const Object& job) const {
    return {{"kind", "Job"},
            {"namespace", job.meta.ns.get()},
            {"name", job.meta.name},
            {"uid", uid_text(job.meta.uid)},
            {"apiVersion", "batch/v1"},
            {"resourceVersion", std::to_string(job.meta.seq)}};
  }

  // --- when ---

  void schedule() {
    const std::string zone_name = text_in(spec(), "timeZone");
    const auto zone = TimeZone::find(zone_name);
    if (!zone)
      return event(kWarning, "UnknownTimeZone",
                   format("invalid timeZone: {}: unknown time zone {}", quoted(zone_name), zone_name));
    if (truth_in(spec(), "suspend"))
      return;
    const std::string text = text_in(spec(), "schedule");
    const auto plan = CronSchedule::parse(text, zone);
    if (!plan.ok())
      return event(kWarning, "UnparseableSchedule",
                   format("unparseable schedule: {} : {}", quoted(text), plan.error().message));
    const auto due = most_recent(*plan);
    if (const auto next = plan->next(due.value_or(wall_)); next)
      out_.look_again(std::max(now_, instant_of(view_, *next)) + kSlack);
    if (!due)
      return;
    const std::int64_t patience = whole_in(spec(), "startingDeadlineSeconds", -1);
    if (patience >= 0 && due->us + seconds(patience).us < wall_.us)
      return event(kWarning, "MissSchedule", "Missed scheduled time to start a job: " + timestamp_text(*due));
    start(*due, *zone);
  }

  // The last time that has come since the Job before, or since the CronJob was made.
  std::optional<WallTime> most_recent(const CronSchedule& plan) {
    auto from = parse_timestamp(text_in(status_, "lastScheduleTime"));
    if (!from)
      from = parse_timestamp(text_in(part(body_, "metadata"), "creationTimestamp"));
    if (!from)
      return std::nullopt;
    if (const std::int64_t patience = whole_in(spec(), "startingDeadlineSeconds", -1); patience >= 0)
      from = std::max(*from, WallTime{wall_.us - seconds(patience).us});
    std::optional<WallTime> last;
    int missed = 0;
    for (auto at = plan.next(*from); at && *at <= wall_; at = plan.next(*at)) {
      last = at;
      if (++missed > kMissedMost)
        break;
    }
    if (missed <= kMissedMost)
      return last;
    event(kWarning, "TooManyMissedTimes",
          "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew");
    for (Duration back = minutes(1); back < hours(24 * 366 * 5); back = back * 2) {
      const auto at = plan.next({wall_.us - back.us});
      if (!at || *at > wall_)
        continue;
      for (auto then = at; then && *then <= wall_; then = plan.next(*then)) last = then;
      break;
    }
    return last;
  }

  // --- a new Job ---

  void start(WallTime due, const TimeZone& zone) {
    if (const auto last = parse_timestamp(text_in(status_, "lastScheduleTime")); last && *last == due)
      return;
    const std::string name = format("{}-{}", cron_.meta.name, due.seconds() / 60);
    const std::string policy = text_in(spec(), "concurrencyPolicy");
    if (const auto there = view_.find(kCronJobType, cron_.meta.ns.get(), name)) {
      if (controlled_by(*there, cron_)) {  // it was made, and the status did not say so yet
        status_["lastScheduleTime"] = timestamp_text(due);
        return;
      }
      out_.look_again(now_ + kJobAgain);
      return event(kWarning, "FailedCreate", format("Error creating job: jobs.batch {} already exists", quoted(name)));
    }
    if (policy == "Forbid" && !active_.empty())
      return event(kNormal, "JobAlreadyActive",
                   "Not starting job because prior execution is running and concurrency policy is Forbid");
    json::object job = job_for(name, due, zone);
    QuotaLedger ledger(view_.tables(), cron_.meta.ns);
    if (const auto refused =
            out_.full.empty() ? ledger.count(kCronJobType, job) : std::optional<std::string>(out_.full)) {
      out_.look_again(now_ + kJobAgain);
      return event(kWarning, "FailedCreate",
                   format("Error creating job: jobs.batch {} is forbidden: {}", quoted(name), *refused));
    }
    std::vector<CommandBody> also = ledger.take();
    if (policy == "Replace")
      for (const ChildJob& child : children_)
        if (!child.finished() && !is_deleting(*child.object)) {
          also.emplace_back(
              RemoveObject{child.object->type, child.object->meta.ns, child.object->meta.name, child.object->meta.seq});
          also.emplace_back(told("SuccessfulDelete", "Deleted job " + child.object->meta.name));
        }
    also.emplace_back(told("SuccessfulCreate", "Created job " + name));
    Object made = object_of(kCronJobType, std::move(job));
    Reading read = resting_on(cron_);
    add_new(read, view_, made);
    out_.add(PutObject{std::move(made), 0}, std::move(read), std::move(also));
    status_["lastScheduleTime"] = timestamp_text(due);
  }

  PutObject told(const char* reason, const std::string& message) const {
    return {event_about(view_, now_, cron_, kCronKind, kNormal, reason, message), 0};
  }

  json::object job_for(const std::string& name, WallTime due, const TimeZone& zone) const {
    const json::value& job_template = part(spec(), "jobTemplate");
    json::object metadata{{"name", name}, {"namespace", cron_.meta.ns.get()}, {"generation", 1}};
    for (const char* key : {"labels", "annotations"})
      if (const json::object* words = member_object(part(job_template, "metadata"), key))
        metadata[key] = *words;
    json::value& marks = metadata["annotations"];
    (marks.is_object() ? marks.get_object() : marks.emplace_object())[kScheduledAt] = local_text(due, zone);
    metadata["ownerReferences"] = json::array{reference_to(cron_, kCronKind)};
    metadata["creationTimestamp"] = time_text(now_, view_.wall_offset());
    json::object job;
    job["metadata"] = std::move(metadata);
    job["spec"] = part(job_template, "spec");
    if (const Schema* schema = builtin_kind_schema("batch", "v1", "Job"))
      fill_defaults(job, *schema, wall_);
    return job;
  }

  // "2026-11-26T11:00:00+01:00".
  static std::string local_text(WallTime time, const TimeZone& zone) {
    const std::int64_t offset = zone.offset(time.seconds());
    std::string text = timestamp_text({time.us + seconds(offset).us});
    if (offset == 0)
      return text;
    text.pop_back();
    const std::int64_t size = offset < 0 ? -offset : offset;
    return text + format("{}{:02}:{:02}", offset < 0 ? '-' : '+', size / 3600, size % 3600 / 60);
  }

  // --- old Jobs ---

  void clean_up(const char* limit_key, bool ChildJob::*kind) {
    const std::int64_t limit = whole_in(spec(), limit_key, -1);
    std::vector<const ChildJob*> done;
    for (const ChildJob& child : children_)
      if (child.*kind && !is_deleting(*child.object))
        done.push_back(&child);
    if (limit < 0 || static_cast<std::int64_t>(done.size()) <= limit)
      return;
    std::ranges::sort(done, [](const ChildJob* a, const ChildJob* b) {
      const std::string first = a->started(), second = b->started();
      if (first.empty() != second.empty())
        return second.empty();
      return first != second ? first < second : a->object->meta.name < b->object->meta.name;
    });
    done.resize(std::min(done.size() - static_cast<std::size_t>(limit), kDeletionsMost));
    for (const ChildJob* child : done) {
      const Object& job = *child->object;
      out_.add(RemoveObject{job.type, job.meta.ns, job.meta.name, job.meta.seq}, resting_on(cron_),
               {told("SuccessfulDelete", "Deleted job " + job.meta.name)});
    }
  }

  const ObjectView& view_;
  const Instant now_;
  const WallTime wall_;
  const Object& cron_;
  Wishes& out_;
  json::object body_, status_;
  std::vector<ChildJob> children_;
  json::array active_;
};

class CronController final : public Reconciler {
 public:
  std::string_view name() const override { return "cron jobs"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kCronKind.type)
      out.push_back(key_of(changed));
    else if (changed.type == kCronJobType && controller_ref(changed))
      wake_owner(view, changed, kCronKind, out);
    if (changed.type == kCronJobType)
      wake_namesake(view, changed, out);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    if (const auto cron = view.find(kCronKind.type, std::get<1>(key), std::get<2>(key)))
      CronLook(view, now, *cron, out).look();
  }

 private:
  // Whoever has it: "hourly-29406420" takes a name that the CronJob "hourly" would give, and gives it back.
  static void wake_namesake(const ObjectView& view, const Object& job, std::vector<ObjectKey>& out) {
    const std::size_t end = job.meta.name.rfind('-');
    if (end == std::string::npos || !parse_uint(std::string_view(job.meta.name).substr(end + 1)))
      return;
    if (const auto cron = view.find(kCronKind.type, job.meta.ns.get(), job.meta.name.substr(0, end)))
      out.push_back(key_of(*cron));
  }
};

}  // namespace

std::shared_ptr<const Reconciler> cron_job_controller() { return std::make_shared<CronController>(); }

}  // namespace lockstep::kube
