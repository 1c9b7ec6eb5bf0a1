#include "foresight/whatif.h"

#include <algorithm>
#include <set>

#include "base/hostlist.h"
#include "base/text.h"
#include "model/job.h"
#include "model/spec.h"
#include "model/weight.h"
#include "wire/foresight.h"

namespace lockstep {

namespace {

constexpr std::uint32_t kStepsMax = 2000;  // moments a test submission is played forward to find its place

// What all changes of one question may add: it is thought about beside the cluster, in the same memory.
constexpr std::uint64_t kAddedMost = 100'000;
constexpr std::uint64_t kAddedBytesMost = 256 << 20;
constexpr std::size_t kNumberBytes = 48;  // a name's digits, and where it is kept

// "n12" -> "n", 12, width 2
struct Numbered {
  std::string stem;
  std::uint64_t number = 0;
  std::size_t width = 0;
};
Numbered numbered(const std::string& name) {
  std::size_t at = name.size();
  while (at > 0 && name.size() - at < 9 && name[at - 1] >= '0' && name[at - 1] <= '9') --at;
  Numbered out{name.substr(0, at), 0, name.size() - at};
  if (out.width == 0)
    out.stem += '-';
  else
    out.number = parse_uint(std::string_view(name).substr(at)).value_or(0);
  return out;
}

class Changer {
 public:
  explicit Changer(ClusterCopy& copy) : copy_(copy) {}

  Result<void> operator()(const AddNodes& add) {
    const Node* like = copy_.tables().node(add.like);
    if (!like)
      return not_found(format("there is no node {}", add.like));
    TRY(check_room(add, *like));
    Node facts = *like;
    facts.drain = false;
    facts.reason.clear();
    Numbered name = numbered(facts.meta.name);
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < add.count; ++i) {
      do {
        ++name.number;
        facts.meta.name = format("{}{:0{}}", name.stem, name.number, name.width);
      } while (copy_.tables().node(facts.meta.name));
      facts.boot_id = facts.meta.name + "-what-if";
      facts.hostname = facts.meta.name;
      TRY(copy_.change(NodeHello{facts}));
      if (!like_settings_same(facts))
        TRY(copy_.change(UpdateNode{.name = facts.meta.name, .weight = facts.weight, .features = facts.features}));
      names.push_back(facts.meta.name);
    }
    std::vector<Partition> changed;
    for (const auto& [partition_name, partition] : copy_.tables().partitions)
      if (std::find(partition->nodes.begin(), partition->nodes.end(), add.like) != partition->nodes.end()) {
        changed.push_back(*partition);
        changed.back().nodes.insert(changed.back().nodes.end(), names.begin(), names.end());
      }
    for (Partition& partition : changed) TRY(copy_.change(PutPartition{std::move(partition)}));
    return {};
  }

  Result<void> operator()(const SetNodes& set) {
    for (const std::string& name : TRY(expand_hostlist(set.nodes)))
      TRY(copy_.change(
          UpdateNode{.name = name, .drain = set.drain, .reason = set.drain ? std::string("what if") : std::string()}));
    return {};
  }

  Result<void> operator()(const EditRecord& edit) {
    const Tables& t = copy_.tables();
    switch (edit.kind) {
      case Kind::kPartition: return put<Partition, PutPartition>(edit, t.partition(edit.name));
      case Kind::kQos: return put<Qos, PutQos>(edit, t.qos_named(edit.name));
      case Kind::kAccount: return put<Account, PutAccount>(edit, t.account(edit.name));
      case Kind::kLicence: return put<Licence, PutLicence>(edit, t.licence(edit.name));
      case Kind::kReservation: return put<Reservation, PutReservation>(edit, t.reservation(edit.name));
      case Kind::kPolicy: return put<Policy, PutPolicy>(edit, &t.policy());
      default: return invalid("records of this kind are not edited");
    }
  }

  Result<void> operator()(const UpdateJob& update) {
    TRY(copy_.change(update));
    return {};
  }

  Result<void> operator()(const AddJobs& add) {
    const Ref<Job>* like = copy_.tables().jobs.get(add.like);
    if (!like)
      return not_found(format("there is no job {}", add.like.value));
    JobSpec spec = *(*like)->spec;
    spec.hold = false;
    spec.dependencies = std::vector<Dependency>();
    SubmitJob submit{.spec = std::make_shared<const JobSpec>(std::move(spec))};
    jobs_added_ += add.count;
    if (jobs_added_ > kAddedMost)
      return Error{Errc::kExhausted,
                   format("{} jobs would be added; one question may add {}: ask for fewer", jobs_added_, kAddedMost),
                   "count"};
    for (std::uint32_t i = 0; i < add.count; ++i) done.added.push_back(TRY(copy_.change(submit)).job);
    return {};
  }

  Result<void> operator()(const RemoveJobs& remove) {
    for (const JobTarget& target : remove.jobs) {
      TRY(copy_.change(CancelJob{.target = target}));
      if (!target.elements)
        done.removed.push_back(target.job);
    }
    return {};
  }

  ChangedJobs done;

 private:
  // New nodes are copies of one with all its features and devices, and of its name in every partition that names it.
  Result<void> check_room(const AddNodes& add, const Node& like) {
    std::size_t each = stored_bytes_at_most(Record(std::make_shared<const Node>(like))).bytes;
    for (const auto& [name, partition] : copy_.tables().partitions)
      if (std::find(partition->nodes.begin(), partition->nodes.end(), add.like) != partition->nodes.end())
        each += add.like.size() + kNumberBytes;
    nodes_added_ += add.count;
    bytes_added_ += each * add.count;
    if (nodes_added_ <= kAddedMost && bytes_added_ <= kAddedBytesMost)
      return {};
    return Error{Errc::kExhausted,
                 format("{} nodes would be added, with {} MB of records; one question may add {} and {} MB: ask for "
                        "fewer",
                        nodes_added_, bytes_added_ >> 20, kAddedMost, kAddedBytesMost >> 20),
                 "count"};
  }

  bool like_settings_same(const Node& facts) const {
    const Node* made = copy_.tables().node(facts.meta.name);
    return made && made->weight == facts.weight && made->features == facts.features;
  }

  template <class T, class Put>
  Result<void> put(const EditRecord& edit, const T* known) {
    T base = known ? *known : T{};
    base.meta.name = edit.name;
    const Record laid = TRY(laid_over(edit, Record(std::make_shared<const T>(std::move(base)))));
    T record = *std::get<Ref<T>>(laid);
    TRY(copy_.change(Put{std::move(record)}));
    return {};
  }

  ClusterCopy& copy_;
  std::uint64_t nodes_added_ = 0, jobs_added_ = 0, bytes_added_ = 0;
};

ForeseenTotals totals(const std::vector<BeforeAfter>& jobs, Foreseen BeforeAfter::*side, WallTime now) {
  ForeseenTotals out;
  std::int64_t sum = 0, with_time = 0;
  for (const BeforeAfter& job : jobs) {
    if (job.added || job.removed)
      continue;
    ++out.jobs;
    const Foreseen& f = job.*side;
    out.start_now += f.started;
    if (!f.start) {
      ++out.no_time;
      continue;
    }
    const std::int64_t wait = std::max<std::int64_t>(0, (f.start.us - now.us) / 1'000'000);
    sum += wait;
    ++with_time;
    out.last_start_s = std::max(out.last_start_s, wait);
  }
  out.mean_wait_s = with_time > 0 ? sum / with_time : 0;
  return out;
}

}  // namespace

Result<ChangedJobs> apply_changes(ClusterCopy& copy, std::span<const ChangeAsk> changes) {
  Changer changer(copy);
  for (const ChangeAsk& change : changes)
    if (auto done = std::visit(changer, change.what); !done.ok()) {
      Error error = done.error();
      error.field = change.field;
      return error;
    }
  return std::move(changer.done);
}

Result<WhatIfAnswer> what_if(const Tables& tables, const ClusterCopy::Clock& clock, std::span<const ChangeAsk> changes,
                             const CoreSettings& core) {
  ClusterCopy before(tables, clock, core);
  ClusterCopy after(tables, clock, core);
  const ChangedJobs changed = TRY(apply_changes(after, changes));
  before.plan();
  after.plan();
  const std::set<JobId> removed(changed.removed.begin(), changed.removed.end());
  WhatIfAnswer out;
  const auto add = [&](const Job& job, bool is_new) {
    BeforeAfter both{.job = job.id, .name = job.spec->name, .user = user_name(tables, job)};
    both.added = is_new;
    both.removed = removed.contains(job.id);
    if (!is_new)
      both.before = before.foresee(job.id);
    if (!both.removed)
      both.after = after.foresee(job.id);
    out.jobs.push_back(std::move(both));
  };
  for (const auto& [id, job] : tables.jobs)
    if (job->state == JobState::kPending)
      add(*job, false);
  for (const JobId id : changed.added)
    if (const Job* job = after.tables().job(id))
      add(*job, true);
  const WallTime now = before.wall(before.now());
  out.before = totals(out.jobs, &BeforeAfter::before, now);
  out.after = totals(out.jobs, &BeforeAfter::after, now);
  const auto key = [](const BeforeAfter& job) {
    return std::tuple(job.removed, job.after.start ? job.after.start.us : INT64_MAX, job.job);
  };
  std::sort(out.jobs.begin(), out.jobs.end(),
            [&](const BeforeAfter& a, const BeforeAfter& b) { return key(a) < key(b); });
  return out;
}

Result<Tried> try_submit(const Tables& tables, const ClusterCopy::Clock& clock, const SubmitJob& ask,
                         const Caller& caller, const CoreSettings& core) {
  ClusterCopy copy(tables, clock, core);
  const Answer answer = TRY(copy.change(ask, caller));
  copy.plan();
  Tried out{answer.job, copy.foresee(answer.job)};
  if (out.foreseen.started || !out.foreseen.start)
    return out;
  // It has a time, but a place only when what runs now is over: let time go on until it starts.
  const Foreseen promised = out.foreseen;
  for (std::uint32_t i = 0; i < kStepsMax && copy.step(kNever); ++i) {
    const Job* job = copy.tables().job(answer.job);
    if (!job || is_final(job->state))
      break;
    const Foreseen now = copy.foresee(answer.job);
    if (!now.started)
      continue;
    out.foreseen = now;
    out.foreseen.started = false;
    out.foreseen.reason = promised.reason;
    break;
  }
  return out;
}

}  // namespace lockstep
