// The API's questions about jobs: records, long polls, scripts.
#include "base/text.h"
#include "controller/api.h"
#include "controller/record_list.h"
#include "model/weight.h"
#include "views/job_names.h"
#include "views/selectors.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

constexpr std::size_t kDetailsAtOnce = 256;  // steps or tasks of a job that are written in one piece
constexpr std::size_t kFewDetails = 16;

std::size_t bytes_of(const std::vector<Ref<Step>>& steps) {
  std::size_t bytes = 0;
  for (const Ref<Step>& step : steps) bytes += stored_bytes_at_most(step).bytes;
  return bytes;
}

bool job_started(const Job& job) {
  if (is_final(job.state) || job.state == JobState::kRunning || job.state == JobState::kCompleting ||
      job.state == JobState::kSuspended)
    return true;
  return job.array && (job.array->running > 0 || job.array->waiting.empty());
}

// It has its nodes; they need not have said yet that they are ready.
bool job_allocated(const Job& job) { return job_started(job) || job.state == JobState::kStarting; }

}  // namespace

void Api::wait_started(Visit visit, JobId id, StepNo step_number, std::shared_ptr<void> keep,
                       std::function<void()> gone) {
  const auto ready = [this, id, step_number, viewer = visit.viewer()]() -> std::optional<HttpResponse> {
    const Tables& tables = world_.view.tables();
    const auto job = tables.jobs.find(id);
    if (job == tables.jobs.end()) {
      const Error gone = not_found(format("job {} has ended", id.value));
      return HttpResponse{http_status_of(gone.code), "application/json", encode_error(gone), {}};
    }
    VisibleStarted started{shown_to(viewer, job->second), {}};
    if (step_number >= 0) {
      // Its input and output can be attached as soon as it is being launched.
      if (const auto step = tables.steps.find({id, step_number}); step != tables.steps.end())
        started.step = shown_to(viewer, step->second);
      if (!is_final(job->second->state) && (!started.step || started.step->state == StepState::kPending))
        return std::nullopt;
    } else if (!job_started(*job->second)) {
      return std::nullopt;
    }
    return HttpResponse{200, "application/json", encode(started), {}};
  };
  world_.waiters.add(visit.payer, id, visit.exchange, ready, kForever, std::move(keep), std::move(gone));
}

// Of a job with very many steps or tasks, or very long ones, the last of each.
std::string Api::job_detail(const Viewer& viewer, const Job& job) const {
  const Tables& tables = world_.view.tables();
  const auto last = [](auto all) {
    std::size_t count = 0, bytes = 0;
    for (; count < std::min(all.size(), kDetailsAtOnce) && bytes < kListPieceBytes; ++count)
      bytes += stored_bytes_at_most(all[all.size() - 1 - count]).bytes;
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(count));
    return all;
  };
  VisibleDetail detail;
  detail.job = shown_to(viewer, tables.jobs.at(job.id));
  for (const Ref<Step>& step : last(tables.steps_of(job.id))) detail.steps.push_back(shown_to(viewer, step));
  for (const Ref<Task>& task : last(tables.tasks_of(job.id)))
    detail.tasks.push_back(as_seen_by(task, sees_job_as(viewer, job)).as<Task>());
  detail.note = world_.view.notes().whole(job.id).value_or(PlanNote{});
  return encode(detail);
}

// Steps and tasks of a job that has very many are written in slices, in the place where there are none in the rest.
void Api::get_job(Visit visit) {
  const Job* job = job_of(visit);
  if (!job)
    return;
  const Tables& tables = world_.view.tables();
  auto steps = tables.steps_of(job->id);
  auto tasks = tables.tasks_of(job->id);
  if (steps.size() <= kFewDetails && tasks.size() <= kFewDetails && bytes_of(steps) < kListPieceBytes)
    return visit.answer(job_detail(visit.viewer(), *job));
  VisibleDetail detail;
  detail.job = shown_to(visit.viewer(), tables.jobs.at(job->id));
  detail.note = world_.view.notes().whole(job->id).value_or(PlanNote{});
  std::string rest = encode(detail);
  constexpr std::string_view kSteps = "\"steps\":[", kEmpty = "\"steps\":[],\"tasks\":[]";
  const auto at = rest.rfind(kEmpty);
  CHECK(at != std::string::npos, "a job without steps and tasks is written with empty lists");
  const std::size_t begin = at + kSteps.size(), between = begin + std::string_view("],\"tasks\":[").size();
  std::vector<Record> records(steps.begin(), steps.end());
  records.insert(records.end(), tasks.begin(), tasks.end());
  PageReply reply{200, "application/json", rest.substr(0, begin), {}};
  reply.more = [viewer = visit.viewer(), as = sees_job_as(visit.viewer(), *job), records = std::move(records),
                steps_count = steps.size(), next = std::size_t{0}, rest = std::move(rest), begin,
                between](std::string& body) mutable {
    const std::size_t end = body.size() + kListPieceBytes;
    for (std::size_t n = 0; n < kDetailsAtOnce / 4 && next < records.size() && body.size() < end; ++n, ++next) {
      if (next == steps_count)
        body.append(rest, begin, between - begin);
      else if (next > 0)
        body += ',';
      body +=
          encode_record(next < steps_count ? shown_to(viewer, records[next]).value() : as_seen_by(records[next], as));
    }
    if (next < records.size())
      return true;
    if (next == steps_count)
      body.append(rest, begin, between - begin);
    body.append(rest, between);
    return false;
  };
  write(std::move(visit), std::move(reply));
}

void Api::wait_job(Visit visit) {
  const Job* job = job_of(visit);
  if (!job)
    return;
  const auto what = visit.query("for");
  enum class For : unsigned char { kAllocated, kStarted, kEnded, kChange };
  For until{};
  if (what == "allocated")
    until = For::kAllocated;
  else if (what == "started")
    until = For::kStarted;
  else if (what == "ended")
    until = For::kEnded;
  else if (what == "change")
    until = For::kChange;
  else
    return visit.refuse(invalid(format("for={}: allocated, started, ended or change is meant", what), "for"));
  const JobId id = job->id;
  const auto since = parse_uint(visit.query("since"));
  const Seq seen = since ? *since : job->meta.seq;
  const auto ready = [this, id, until, seen, viewer = visit.viewer()]() -> std::optional<HttpResponse> {
    const Job* now = world_.view.tables().job(id);
    if (!now) {
      const Error gone = not_found(format("job {} has ended", id.value));
      return HttpResponse{http_status_of(gone.code), "application/json", encode_error(gone), {}};
    }
    const bool holds = until == For::kAllocated ? job_allocated(*now)
                       : until == For::kStarted ? job_started(*now)
                       : until == For::kEnded   ? is_final(now->state)
                                                : now->meta.seq > seen;
    if (!holds)
      return std::nullopt;
    return HttpResponse{200, "application/json", job_detail(viewer, *now), {}};
  };
  if (const auto room = world_.waiters.room(visit.payer); !room.ok())
    return visit.refuse(room.error());
  std::shared_ptr<void> keep;
  if (visit.query("presence") == "1" && visit.viewer().owns(*job))
    keep = world_.presence.enter(Presence::whole(id), visit.node());
  world_.waiters.add(visit.payer, id, visit.exchange, ready, poll_time(visit), std::move(keep));
}

void Api::send_blob(Visit visit, const Job& job, BlobId id) {
  if (id.empty())
    return visit.refuse(not_found(format("job {} has none", job.id.value)));
  world_.read_blob(id, [visit = std::move(visit)](Result<std::string> bytes) {
    if (!bytes.ok())
      return visit.refuse(bytes.error());
    visit.exchange->respond({200, "application/octet-stream", std::move(*bytes), {}});
  });
}

void Api::job_script(Visit visit) {
  if (const Job* job = job_of(visit))
    send_blob(std::move(visit), *job, job->spec->script);
}

void Api::job_environment(Visit visit) {
  if (const Job* job = job_of(visit))
    send_blob(std::move(visit), *job, job->spec->environment);
}

}  // namespace lockstep
