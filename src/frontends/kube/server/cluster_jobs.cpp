#include "frontends/kube/server/cluster_jobs.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cctype>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/kube/server/selection.h"
#include "frontends/kube/server/shown.h"
#include "model/job.h"
#include "views/reasons.h"
#include "wire/codec.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kType = "jobs.lockstep.io";
constexpr std::size_t kJobsOfPiece = 50;
constexpr std::size_t kJobEventBytes = 64 << 10;  // written by one look at a watch
constexpr Duration kWatchLife = minutes(40);
constexpr Duration kLookEvery = seconds(1);  // at all jobs, where there are many
constexpr std::size_t kMany = 2000;

std::string nodes_of(const Tables& tables, const Job& job) {
  if (!job.allocation)
    return job.ran_on.get();
  std::vector<std::string> names;
  for (const Grant& grant : job.allocation->grants)
    if (const Node* node = tables.node(grant.node))
      names.push_back(node->meta.name);
  sort_hosts(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return compress_hostlist(names);
}

json::object spec_of_job(const Tables& tables, const Job& job) {
  const JobSpec& spec = *job.spec;
  json::object out{{"name", spec.name}, {"frontEnd", spec.front_end.get()}};
  const auto put = [&](const char* key, const std::string& value) {
    if (!value.empty())
      out[key] = value;
  };
  if (const User* user = tables.user(spec.user))
    put("user", user->meta.name);
  put("namespace", job.meta.ns.get());
  put("account", spec.account.get());
  put("qos", spec.qos.get());
  put("partition", job.allocation ? job.allocation->partition
                                  : (spec.partitions.get().empty() ? std::string() : spec.partitions.get().front()));
  if (spec.time_limit.us > 0 && spec.time_limit < kForever)
    out["timeLimitSeconds"] = spec.time_limit.seconds();
  return out;
}

json::object status_of_job(const ReadContext& read, const Job& job) {
  std::string state(text_of(job.state));
  if (!state.empty())
    state[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(state[0])));
  json::object out{{"state", state}};
  const auto time = [&](const char* key, Instant at) {
    if (at && at < kNever)
      out[key] = time_text(at, wall_offset_of(read));
  };
  time("startTime", job.started);
  time("endTime", job.ended);
  if (const std::string nodes = nodes_of(read.tables, job); !nodes.empty())
    out["nodes"] = nodes;
  const PlanNote* note = job.state == JobState::kPending ? read.notes.of(job.id) : nullptr;
  if (const std::string reason = slurm_reason(job, note); !reason.empty() && reason != "None")
    out["reason"] = reason;
  if (note)
    time("expectedStartTime", note->expected_start);
  return out;
}

Ref<Object> object_of_job(const ReadContext& read, const Job& job) {
  Object out;
  out.type = kType;
  out.meta = job.meta;
  out.meta.ns = {};
  out.meta.name = std::to_string(job.id.value);
  const json::object body{
      {"metadata", json::object{{"creationTimestamp", time_text(job.submitted, wall_offset_of(read))}}},
      {"spec", spec_of_job(read.tables, job)},
      {"status", status_of_job(read, job)}};
  out.body = json::serialize(body);
  return std::make_shared<const Object>(std::move(out));
}

std::optional<JobId> id_of(const std::string& name) {
  const auto number = parse_uint(name);
  return number && *number > 0 ? std::optional(JobId{*number}) : std::nullopt;
}

const Job* job_asked(const Request& request, const ReadContext& read) {
  const auto id = id_of(request.target.name);
  return id ? read.tables.job(*id) : nullptr;
}

void get_job(const Asked& request) {
  const auto read = request->visit->read();
  const Job* job = job_asked(*request, *read);
  if (!job)
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  answer_shown(*request, *object_of_job(*read, *job));
}

void list_jobs(const Asked& request) {
  auto selection = selection_of(*request);
  if (!selection.ok())
    return answer_status(*request, selection.error());
  const auto read = request->visit->read();
  std::vector<Ref<Job>> jobs;
  for (const auto& [id, job] : read->tables.jobs) jobs.push_back(job);
  PageReply reply{200, "application/json", list_head(*request, read->tables.seq, "", 0), {}};
  reply.more = [request, selection = *selection, jobs = std::move(jobs), done = std::size_t{0},
                any = false](std::string& out) mutable {
    const auto read = request->visit->read();
    for (std::size_t i = 0; i < kJobsOfPiece && done < jobs.size(); ++i) {
      const Ref<Job> job = std::move(jobs[done++]);
      const Ref<Object> object = object_of_job(*read, *job);
      if (!selection.keeps(*object))
        continue;
      if (std::exchange(any, true))
        out += ',';
      append_item(out, *request, *object);
    }
    if (done < jobs.size())
      return true;
    out += list_end();
    return false;
  };
  request->visit->write(std::move(reply));
}

// Tells what differs from what was told last. Jobs are compared by the version of their record.
class JobWatch {
 public:
  JobWatch(Asked request, Selection selection) : request_(std::move(request)), selection_(std::move(selection)) {}

  // What is there is known already to who has listed it.
  void know_all() {
    for (const auto& [id, job] : request_->visit->read()->tables.jobs) known_[id] = job;
  }

  Pulled pull(std::string& out) {
    const auto read = request_->visit->read();
    if (read->tables.jobs.size() > kMany && read->now < next_)
      return Pulled::kNothing;
    const std::size_t begin = out.size();
    for (auto at = known_.begin(); at != known_.end() && from_ == JobId{};) {
      if (read->tables.jobs.contains(at->first)) {
        ++at;
        continue;
      }
      event(out, "DELETED", *read, *at->second);
      at = known_.erase(at);
    }
    for (auto at = read->tables.jobs.upper_bound(from_); at != read->tables.jobs.end(); ++at) {
      if (out.size() - begin > kJobEventBytes)
        return Pulled::kMore;
      from_ = at->first;
      Ref<Job>& known = known_[at->first];
      if (known == at->second)
        continue;
      event(out, known ? "MODIFIED" : "ADDED", *read, *at->second);
      known = at->second;
    }
    from_ = {};
    next_ = read->now + kLookEvery;
    return Pulled::kNothing;
  }

 private:
  void event(std::string& out, std::string_view type, const ReadContext& read, const Job& job) {
    const Ref<Object> object = object_of_job(read, job);
    if (!selection_.keeps(*object))
      return;
    out += format(R"({{"type":"{}","object":)", type);
    if (request_->accepted.form == Accepted::Form::kTable) {
      out += list_head(*request_, job.meta.seq, "", 0);
      append_item(out, *request_, *object);
      out += list_end();
    } else {
      append_shown(out, *request_, *object);
    }
    out += "}\n";
  }

  Asked request_;
  Selection selection_;
  std::map<JobId, Ref<Job>> known_;
  JobId from_;  // a look that was cut goes on behind it
  Instant next_;
};

void watch_jobs(const Asked& request) {
  auto selection = selection_of(*request);
  if (!selection.ok())
    return answer_status(*request, selection.error());
  const auto watch = std::make_shared<JobWatch>(request, std::move(*selection));
  const std::string since = query_of(request->http(), "resourceVersion");
  if (!since.empty() && since != "0")
    watch->know_all();
  const auto limit = parse_uint(query_of(request->http(), "timeoutSeconds"));
  const Duration longest =
      limit && *limit > 0
          ? std::min(kWatchLife, seconds(static_cast<std::int64_t>(std::min<std::uint64_t>(*limit, 86'400))))
          : kWatchLife;
  request->visit->stream(
      {200, std::string(kJsonType), "", {{"Cache-Control", "no-cache, private"}}},
      [watch](std::string& out) { return watch->pull(out); }, longest);
}

// As its caller, so that roles alone let nobody cancel what is not theirs.
void cancel_job(const Asked& request) {
  const auto read = request->visit->read();
  const Job* job = job_asked(*request, *read);
  if (!job)
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  const Ref<Object> object = object_of_job(*read, *job);
  if (request->dry_run)
    return answer_shown(*request, *object);
  std::vector<CommandBody> bodies;
  bodies.emplace_back(CancelJob{.target = {job->id, {}}});
  request->visit->commit(std::move(bodies), [request](const Result<Answer>& done) {
    if (!done.ok())
      return answer_status(*request, status_of(done.error(), request->resource(), request->target.name));
    // What has ended is still listed for a while. No uid: kubectl does not wait for that one to go.
    answer_tree(*request,
                {{"kind", "Status"},
                 {"apiVersion", "v1"},
                 {"metadata", json::object()},
                 {"status", "Success"},
                 {"details", {{"name", request->target.name}, {"group", request->kind->group}, {"kind", "jobs"}}}});
  });
}

}  // namespace

Kind cluster_jobs_kind() {
  static const Schema kAny;
  Kind out;
  out.group = "lockstep.io";
  out.version = "v1";
  out.kind = "Job";
  out.plural = "jobs";
  out.singular = "job";
  out.verbs = {"delete", "get", "list", "watch"};
  out.schema = &kAny;
  out.list_kind = "JobList";
  out.type = kType;
  return out;
}

bool is_cluster_jobs(const Kind& kind) { return kind.type == kType; }

void answer_cluster_jobs(const Asked& request) {
  const std::string& verb = request->target.verb;
  if (verb == "get")
    return get_job(request);
  if (verb == "list")
    return list_jobs(request);
  if (verb == "watch")
    return watch_jobs(request);
  if (verb == "delete")
    return cancel_job(request);
  answer_status(*request, Status::method_not_allowed(request->resource(), verb));
}

}  // namespace lockstep::kube
