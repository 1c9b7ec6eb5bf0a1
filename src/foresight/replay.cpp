#include "foresight/replay.h"

#include <algorithm>
#include <map>
#include <queue>

#include "base/text.h"
#include "foresight/whatif.h"
#include "model/history.h"
#include "model/spec.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kMomentsMax = 50'000'000;  // of virtual time: more means that it goes in circles

// The cluster before its first job: who, where and by which rules.
Tables empty_cluster(const Tables& now, Instant begin) {
  Tables out;
  for (const Change& change : now.snapshot()) {
    Change kept{out.seq + 1, change.record, false};
    switch (kind_of(change.record)) {
      case Kind::kJob:
      case Kind::kStep:
      case Kind::kTask:
      case Kind::kObject:
      case Kind::kToken:
      case Kind::kUsage:
      case Kind::kReservation: continue;
      case Kind::kCluster: {
        Cluster cluster = *std::get<Ref<Cluster>>(change.record);
        cluster.next_job = 1;
        cluster.clock = begin;
        cluster.wall_offset = {};
        kept.record = std::make_shared<const Cluster>(std::move(cluster));
        break;
      }
      case Kind::kNode: {
        Node node = *std::get<Ref<Node>>(change.record);
        node.link = NodeLink::kUp;  // history does not tell when which was lost
        node.unconfirmed.clear();
        kept.record = std::make_shared<const Node>(std::move(node));
        break;
      }
      default: break;
    }
    out.apply(kept);
  }
  return out;
}

struct Past {
  const JobRow* row = nullptr;
  Instant submitted;
  Duration ran;
};

// "gpu:h100=8,gpu=2"
std::vector<DeviceAsk> devices_of(const std::string& text, std::uint32_t nodes, bool& even) {
  std::vector<DeviceAsk> out;
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.rfind('=');
    const auto count =
        parse_uint(std::string_view(part).substr(equals == std::string::npos ? part.size() : equals + 1));
    if (!count || *count == 0 || *count > 1'000'000)
      continue;
    const std::string name = part.substr(0, equals);
    const auto colon = name.find(':');
    DeviceAsk ask{.kind = name.substr(0, colon), .type = colon == std::string::npos ? "" : name.substr(colon + 1)};
    even = even && *count % nodes == 0;
    ask.count = static_cast<std::uint32_t>(*count);
    out.push_back(std::move(ask));
  }
  return out;
}

class Player {
 public:
  Player(ClusterCopy& copy, Replay& out) : copy_(copy), out_(out) {}

  void run(const std::vector<Past>& past, const Tables& tables) {
    std::size_t next = 0;
    for (std::uint64_t moments = 0; moments < kMomentsMax && (next < past.size() || !waiting_.empty()); ++moments) {
      const Instant submit = next < past.size() ? past[next].submitted : kNever;
      const Instant end = ends_.empty() ? kNever : ends_.top().first;
      const Instant at = std::min(submit, end);
      if (copy_.step(at < kNever ? at - micros(1) : kNever)) {
        note_starts();
        continue;
      }
      if (at == kNever)
        break;  // what is left never starts
      copy_.advance_to(at);
      for (; !ends_.empty() && ends_.top().first <= at; ends_.pop()) copy_.finish(ends_.top().second);
      for (; next < past.size() && past[next].submitted <= at; ++next) submit_one(past[next], tables);
      copy_.plan();
      note_starts();
    }
    for (const auto& [id, job] : waiting_) out_.left_out.emplace_back(job.id, "it never started");
    std::stable_sort(out_.jobs.begin(), out_.jobs.end(),
                     [](const ReplayedJob& a, const ReplayedJob& b) { return a.submitted_s < b.submitted_s; });
  }

 private:
  void submit_one(const Past& past, const Tables& tables) {
    const JobRow& row = *past.row;
    const auto answer =
        copy_.change(SubmitJob{.spec = std::make_shared<const JobSpec>(spec_of(row, tables))}, {UserId{}, true});
    if (!answer.ok()) {
      out_.left_out.emplace_back(row.job, answer.error().message);
      return;
    }
    waiting_[answer->job] = {.id = row.job,
                             .submitted_s = past.submitted.us / 1'000'000,
                             .ran_s = std::max<std::int64_t>(1, past.ran.seconds()),
                             .limit_s = std::max<std::int64_t>(0, row.limit_s),
                             .recorded_s = row.started_us / 1'000'000,
                             .nodes = row.nodes,
                             .cores = row.cores,
                             .devices = row.devices,
                             .user = row.user};
    runs_[answer->job] = past.ran;
  }

  void note_starts() {
    for (const JobId id : copy_.take_started()) {
      const auto it = waiting_.find(id);
      if (it == waiting_.end())
        continue;
      it->second.start_s = copy_.now().us / 1'000'000;
      out_.jobs.push_back(it->second);
      waiting_.erase(it);
      ends_.emplace(copy_.now() + runs_[id], id);
      runs_.erase(id);
    }
    (void)copy_.take_ended();
  }

  ClusterCopy& copy_;
  Replay& out_;
  std::map<JobId, ReplayedJob> waiting_;  // by the id it has here
  std::map<JobId, Duration> runs_;
  using End = std::pair<Instant, JobId>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

JobSpec spec_of(const JobRow& row, const Tables& tables) {
  JobSpec spec;
  spec.name = row.name;
  spec.account = row.account;
  spec.qos = row.qos;
  const User* user = tables.user_named(row.user);
  spec.user = user ? user->id : tables.users.empty() ? UserId{1} : tables.users.begin()->first;
  for (const std::string& name : split(row.partition, ','))
    if (tables.partition(name)) {
      std::vector<std::string> partitions = spec.partitions;
      partitions.push_back(name);
      spec.partitions = std::move(partitions);
    }
  spec.time_limit = row.limit_s < 0 ? kForever : seconds(row.limit_s);
  spec.requeue = false;
  const std::uint32_t nodes = std::max(1u, row.nodes), tasks = std::max(nodes, row.tasks);
  GroupSpec group;
  group.launch = Launch::kNothing;
  group.nodes = {nodes, nodes};
  group.tasks = {tasks, tasks};
  group.tasks_per_node = (tasks + nodes - 1) / nodes;
  if (row.cores % tasks == 0) {
    group.per_task.cores = row.cores / tasks;
  } else {
    group.per_node.cores = (row.cores + nodes - 1) / nodes;
    group.overcommit = true;
  }
  group.per_node.memory_mb = row.asked_memory_mb / nodes;
  bool even = true;
  std::vector<DeviceAsk> devices = devices_of(row.devices_text, nodes, even);
  if (even) {
    for (DeviceAsk& ask : devices) ask.count /= nodes;
    group.per_node.devices = std::move(devices);
  } else {
    group.per_job = std::move(devices);
  }
  spec.groups = std::vector<GroupSpec>{std::move(group)};
  return spec;
}

Result<Replay> replay(const Tables& tables, std::span<const JobRow> rows, std::span<const ChangeAsk> changes) {
  Replay out;
  std::vector<Past> past;
  for (const JobRow& row : rows) {
    if (row.step != -100 || row.submitted_us <= 0)
      continue;
    if (row.started_us <= 0 || row.ended_us <= 0 || row.ended_us < row.started_us) {
      out.left_out.emplace_back(row.job, row.started_us > 0 ? "it has not ended" : "it never ran");
      continue;
    }
    Past job{&row, Instant{std::max(row.submitted_us, std::min(row.eligible_us, row.started_us))},
             Duration{row.ended_us - row.started_us}};
    past.push_back(job);
  }
  if (past.empty())
    return invalid("history has no job that has run to its end");
  std::stable_sort(past.begin(), past.end(), [](const Past& a, const Past& b) {
    return std::tie(a.submitted, a.row->job) < std::tie(b.submitted, b.row->job);
  });
  const Instant begin = past.front().submitted - seconds(1);
  ClusterCopy copy(empty_cluster(tables, begin), {begin, Duration{}});
  TRY(apply_changes(copy, changes));
  for (const auto& [id, node] : copy.tables().nodes)
    if (node_usable(*node)) {
      out.cores += node->cores;
      out.devices += node->devices.size();
    }
  Player(copy, out).run(past, tables);
  return out;
}

namespace {

PastFigures figures_of(const std::vector<ReplayedJob>& jobs, std::int64_t ReplayedJob::*start, std::uint64_t capacity,
                       bool by_gpus) {
  constexpr std::int64_t kShortest = 10;  // runs below this do not blow slowdown up
  PastFigures out;
  std::int64_t waits = 0, slowdowns = 0, first = INT64_MAX, last = 0, area = 0;
  for (const ReplayedJob& job : jobs) {
    const std::int64_t wait = std::max<std::int64_t>(0, job.*start - job.submitted_s);
    waits += wait;
    out.max_wait_s = std::max(out.max_wait_s, wait);
    slowdowns += std::max<std::int64_t>(1000, (wait + job.ran_s) * 1000 / std::max(job.ran_s, kShortest));
    first = std::min(first, job.submitted_s);
    last = std::max(last, job.*start + job.ran_s);
    area += job.ran_s * (by_gpus ? job.devices : job.cores);
  }
  const auto count = static_cast<std::int64_t>(jobs.size());
  if (count == 0)
    return out;
  out.mean_wait_s = waits / count;
  out.slowdown_milli = slowdowns / count;
  const std::int64_t room = static_cast<std::int64_t>(capacity) * std::max<std::int64_t>(1, last - first);
  out.used_permille = room > 0 ? area * 1000 / room : 0;
  return out;
}

}  // namespace

Result<WhatIfPast> what_if_past(const Tables& tables, std::span<const JobRow> rows,
                                std::span<const ChangeAsk> changes) {
  const Replay changed = TRY(replay(tables, rows, changes));
  const Replay as_is = TRY(replay(tables, rows, {}));
  WhatIfPast out;
  out.jobs = as_is.jobs.size();
  out.left_out = as_is.left_out.size();
  out.by_gpus = as_is.devices > 0 && std::all_of(as_is.jobs.begin(), as_is.jobs.end(),
                                                 [](const ReplayedJob& job) { return job.devices > 0; });
  const auto capacity = [&](const Replay& r) { return out.by_gpus ? r.devices : r.cores; };
  out.recorded = figures_of(as_is.jobs, &ReplayedJob::recorded_s, capacity(as_is), out.by_gpus);
  out.as_is = figures_of(as_is.jobs, &ReplayedJob::start_s, capacity(as_is), out.by_gpus);
  out.changed = figures_of(changed.jobs, &ReplayedJob::start_s, capacity(changed), out.by_gpus);
  return out;
}

}  // namespace lockstep
