#include "foresight/suggest.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/hostlist.h"
#include "base/text.h"
#include "model/job.h"
#include "rules/limits.h"
#include "rules/preempt.h"

namespace lockstep {

namespace {

constexpr Duration kWorthIt = minutes(1);  // the grid of foreseen starts is no finer
constexpr std::uint32_t kPartitionsMax = 6;

class Searcher {
 public:
  Searcher(const Search& search, Explanation& into)
      : search_(search), out_(into), job_(*search.tables.jobs.at(search.job)), lean_(search.tables) {
    for (const JobId id : search.behind) lean_.apply({lean_.seq + 1, search.tables.jobs.at(id), true});
  }

  void run() {
    waiting();
    topology();
    nodes();
    time_limit();
    partitions();
    devices();
    conditions();
    moves();
    std::stable_sort(out_.suggestions.begin(), out_.suggestions.end(),
                     [](const Suggestion& a, const Suggestion& b) { return start_of(a.then) < start_of(b.then); });
  }

 private:
  // Plans a world in which the job is as `edit` makes it. nullopt: no plans are left.
  template <class Edit>
  std::optional<Foreseen> plan(Edit&& edit, bool order_stays = true) {
    if (out_.plans >= search_.settings.plans_max) {
      out_.all_tried = false;
      return std::nullopt;
    }
    ++out_.plans;
    Tables world = order_stays ? lean_ : search_.tables;
    auto changed = std::make_shared<Job>(job_);
    JobSpec spec = *job_.spec;
    edit(*changed, spec);
    changed->spec = std::make_shared<const JobSpec>(std::move(spec));
    changed->promise = nullptr;
    changed->meta.seq = world.seq + 1;
    world.apply({world.seq + 1, Ref<Job>(std::move(changed)), false});
    ClusterCopy copy(world, search_.clock, search_.core);
    copy.plan();
    return copy.foresee(job_.id);
  }

  using Without = remedy::Without::What;
  static Remedy without(Without what, std::string value = {}) { return remedy::Without{what, std::move(value)}; }

  // As plan(), for what is changed of the first group.
  template <class Edit>
  std::optional<Foreseen> with_group(Edit&& edit) {
    return plan([&](Job&, JobSpec& spec) {
      std::vector<GroupSpec> groups = spec.groups;
      edit(groups.front());
      spec.groups = std::move(groups);
    });
  }

  static WallTime start_of(const Foreseen& f) { return f.start ? f.start : WallTime{INT64_MAX}; }
  bool sooner(const Foreseen& f) const {
    if (f.started)
      return !search_.as_is.started;
    return f.start && (!search_.as_is.start || f.start.us + kWorthIt.us <= search_.as_is.start.us);
  }
  static bool as_soon_as(const Foreseen& f, const Foreseen& best) {
    return f.started || (!best.started && f.start && f.start.us <= best.start.us + kWorthIt.us / 2);
  }
  void propose(Remedy remedy, Foreseen then) {
    out_.suggestions.push_back({std::move(remedy), std::move(then), {}, {}});
  }
  void propose_if_sooner(Remedy remedy, std::optional<Foreseen> then) {
    if (then && sooner(*then))
      propose(std::move(remedy), std::move(*then));
  }

  // Of the values low … high - 1 (low asks for the least): the largest with which the job starts as soon as with the
  // least, and the largest that is sooner at all. Starts come no later as the value falls.
  struct Ladder {
    std::uint32_t value = 0;
    Foreseen then;
  };
  std::vector<Ladder> climb(std::uint32_t low, std::uint32_t high, std::uint32_t guess,
                            const std::function<std::optional<Foreseen>(std::uint32_t)>& at) {
    std::map<std::uint32_t, Foreseen> known;
    const auto look = [&](std::uint32_t value) -> const Foreseen* {
      if (const auto it = known.find(value); it != known.end())
        return &it->second;
      auto seen = at(value);
      return seen ? &known.emplace(value, std::move(*seen)).first->second : nullptr;
    };
    std::vector<Ladder> out;
    if (low >= high)
      return out;
    const Foreseen* least = look(low);
    if (!least || !sooner(*least))
      return out;
    const Foreseen best = *least;
    const auto largest = [&](std::uint32_t from, std::uint32_t first, const auto& good) {
      std::uint32_t good_at = from, bad_at = high;
      for (std::uint32_t middle = first; bad_at - good_at > 1; middle = good_at + (bad_at - good_at) / 2) {
        if (middle <= good_at || middle >= bad_at)
          middle = good_at + (bad_at - good_at) / 2;
        const Foreseen* f = look(middle);
        if (!f)
          break;
        (good(*f) ? good_at : bad_at) = middle;
      }
      return good_at;
    };
    const std::uint32_t soonest = largest(low, guess, [&](const Foreseen& f) { return as_soon_as(f, best); });
    out.push_back({soonest, known.at(soonest)});
    if (best.started)
      return out;
    const std::uint32_t any = largest(soonest, high - 1, [&](const Foreseen& f) { return sooner(f); });
    if (any != soonest)
      out.push_back({any, known.at(any)});
    return out;
  }

  // Held, waiting for other jobs or for its time: what if it were not?
  void waiting() {
    const auto let_go = [&](Remedy remedy, auto&& edit) {
      auto then = plan([&](Job& job, JobSpec& spec) {
        job.hold = Hold::kNone;
        job.begin_after = {};
        edit(spec);
      });
      if (then && then->start)
        propose(std::move(remedy), std::move(*then));
    };
    switch (job_.hold) {
      case Hold::kUser:
      case Hold::kAdmin:
      case Hold::kRequeueLimit:
      case Hold::kLaunchFailed: return let_go(remedy::Release{}, [](JobSpec& spec) { spec.hold = false; });
      case Hold::kDependency:
      case Hold::kDependencyNever:
        return let_go(without(Without::kDependency),
                      [](JobSpec& spec) { spec.dependencies = std::vector<Dependency>(); });
      case Hold::kBeginTime: return let_go(without(Without::kBegin), [](JobSpec& spec) { spec.begin = {}; });
      case Hold::kNone:
      case Hold::kArrayThrottle: break;
    }
  }
  bool held() const { return job_.hold != Hold::kNone; }

  void nodes() {
    const GroupSpec& group = job_.spec->groups.front();
    if (held() || job_.spec->groups.size() != 1 || group.tasks.max == UINT32_MAX)
      return;
    const std::uint32_t have = group.nodes.min;
    if (have > 1) {
      const bool per_node = group.tasks.min > have || group.tasks_per_node > 0;
      const auto tasks_on = [&](std::uint32_t n) {
        const std::uint64_t tasks = std::uint64_t{group.tasks.min} * n / have;
        return static_cast<std::uint32_t>(std::max<std::uint64_t>(tasks, n));
      };
      const auto at = [&](std::uint32_t n) { return plan([&](Job&, JobSpec& spec) { shrink(spec, n, tasks_on(n)); }); };
      for (const Ladder& step : climb(1, have, std::min(search_.nodes_free, have - 1), at))
        propose(remedy::FewerNodes{step.value, have, per_node ? tasks_on(step.value) : 0}, step.then);
    } else if (group.tasks.min > 1 && group.tasks.min == group.tasks.max) {
      const auto at = [&](std::uint32_t n) {
        return plan([&](Job&, JobSpec& spec) { shrink(spec, group.nodes.min, n); });
      };
      const std::uint32_t tasks = group.tasks.min;
      for (const Ladder& step : climb(1, tasks, tasks / 2, at))
        propose(remedy::FewerTasks{step.value, tasks}, step.then);
    }
  }
  static void shrink(JobSpec& spec, std::uint32_t nodes, std::uint32_t tasks) {
    std::vector<GroupSpec> groups = spec.groups;
    groups.front().nodes = {nodes, nodes};
    groups.front().tasks = {tasks, tasks};
    spec.groups = std::move(groups);
  }

  void time_limit() {
    if (held())
      return;
    Duration limit = job_.spec->time_limit;
    const Partition* partition = job_.spec->partitions.empty()
                                     ? search_.tables.default_partition()
                                     : search_.tables.partition(job_.spec->partitions.get().front());
    if (limit.us == 0 && partition)
      limit = partition->time_default.us != 0 ? partition->time_default : partition->time_max;
    const Duration high = std::min(limit, hours(30 * 24));
    const Duration unit = high <= hours(2)    ? minutes(1)
                          : high <= hours(8)  ? minutes(5)
                          : high <= hours(48) ? minutes(15)
                                              : hours(1);
    const auto units = static_cast<std::uint32_t>((high.us + unit.us - 1) / unit.us);
    const auto at = [&](std::uint32_t n) {
      return plan([&](Job&, JobSpec& spec) {
        spec.time_limit = unit * n;
        spec.time_min = {};
      });
    };
    for (const Ladder& step : climb(1, units, units / 2, at)) {
      const Duration shorter = unit * step.value;
      propose(remedy::ShorterLimit{shorter, limit, job_.predicted > shorter ? job_.predicted : Duration{}}, step.then);
    }
  }

  void partitions() {
    const JobSpec& spec = *job_.spec;
    if (held())
      return;
    std::uint32_t tried = 0;
    for (const auto& [name, partition] : search_.tables.partitions) {
      const bool asked = spec.partitions.empty()
                             ? partition->is_default
                             : std::find(spec.partitions.begin(), spec.partitions.end(), name) != spec.partitions.end();
      const Duration limit = spec.time_limit.us != 0 ? spec.time_limit : partition->time_default;
      if (asked || !partition->up || limit > partition->time_max || tried == kPartitionsMax ||
          partition_refuses(*partition, spec.account, spec.qos) || !possible(*partition))
        continue;
      ++tried;
      auto then = plan(
          [&](Job&, JobSpec& changed) { changed.partitions = std::vector<std::string>{partition->meta.name}; }, false);
      propose_if_sooner(remedy::OtherPartition{name}, std::move(then));
    }
  }
  bool possible(const Partition& partition) const {
    std::vector<const Node*> nodes;
    for (const auto& [id, node] : search_.tables.nodes)
      if (partition_has(partition, *node))
        nodes.push_back(node.get());
    return !nodes.empty() && check_possible(*job_.spec, partition, nodes).ok();
  }

  // What a group asks for in devices, if it asks for whole ones of one kind only.
  struct OneAsk {
    remedy::DevicesPer per;
    DeviceAsk ask;
  };
  static std::optional<OneAsk> one_ask(const GroupSpec& group) {
    using Per = remedy::DevicesPer;
    const Per per = !group.per_node.devices.empty()   ? Per::kNode
                    : !group.per_task.devices.empty() ? Per::kTask
                                                      : Per::kJob;
    const std::vector<DeviceAsk>& asks = per == Per::kNode   ? group.per_node.devices
                                         : per == Per::kTask ? group.per_task.devices
                                                             : group.per_job;
    if (asks.size() != 1 || !asks.front().whole())
      return std::nullopt;
    return OneAsk{per, asks.front()};
  }
  template <class Edit>
  std::optional<Foreseen> with_first_asks(Edit&& edit) {
    return with_group([&](GroupSpec& group) {
      for (auto* list : {&group.per_node.devices, &group.per_task.devices, &group.per_job})
        if (!list->empty())
          edit(list->front());
    });
  }

  void devices() {
    const JobSpec& spec = *job_.spec;
    if (held() || spec.groups.size() != 1)
      return;
    const auto one = one_ask(spec.groups.front());
    if (!one)
      return;
    if (!one->ask.type.empty())
      propose_if_sooner(remedy::AnyDeviceType{one->ask.type, one->per, one->ask.count},
                        with_first_asks([](DeviceAsk& a) { a.type.clear(); }));
    const auto at = [&](std::uint32_t n) { return with_first_asks([&](DeviceAsk& a) { a.count = n; }); };
    for (const Ladder& step : climb(1, one->ask.count, one->ask.count / 2, at))
      propose(remedy::FewerDevices{one->per, step.value, one->ask.count}, step.then);
  }

  // What the job insists on, left out one at a time.
  void conditions() {
    if (held())
      return;
    const GroupSpec& group = job_.spec->groups.front();
    const auto drop = [&](bool there, Remedy remedy, auto&& edit) {
      if (there)
        propose_if_sooner(std::move(remedy), plan([&](Job&, JobSpec& spec) {
                            std::vector<GroupSpec> groups = spec.groups;
                            for (GroupSpec& g : groups) edit(spec, g);
                            spec.groups = std::move(groups);
                          }));
    };
    drop(!group.constraint.empty(), without(Without::kConstraint, group.constraint),
         [](JobSpec&, GroupSpec& g) { g.constraint.clear(); });
    drop(!group.only_nodes.empty(), without(Without::kOnlyNodes, compress_hostlist(group.only_nodes)),
         [](JobSpec&, GroupSpec& g) { g.only_nodes.clear(); });
    drop(!group.exclude_nodes.empty(), without(Without::kExcludedNodes, compress_hostlist(group.exclude_nodes)),
         [](JobSpec&, GroupSpec& g) { g.exclude_nodes.clear(); });
    drop(group.sharing != Sharing::kShared, without(Without::kWholeNodes), [](JobSpec&, GroupSpec& g) {
      g.sharing = Sharing::kShared;
      g.all_cores = false;
    });
    drop(!job_.spec->reservation.empty(), without(Without::kReservation, job_.spec->reservation.get()),
         [](JobSpec& spec, GroupSpec&) { spec.reservation = ""; });
    drop(!job_.spec->licenses.empty(), without(Without::kLicences, job_.spec->licenses.get()),
         [](JobSpec& spec, GroupSpec&) { spec.licenses = ""; });
  }

  // Where its nodes must lie: a wider level, more switches, no segments; if none of these alone helps, all of them.
  void topology() {
    const GroupSpec& group = job_.spec->groups.front();
    if (held() || job_.spec->groups.size() != 1)
      return;
    const std::size_t before = out_.suggestions.size();
    const bool has_level = group.topology_level.starts_with('!') && group.topology_level != "!cluster";
    if (has_level)
      wider_level(group.topology_level.substr(1));
    if (group.switches_max != 0)
      more_switches(group);
    if (group.segment > 1)
      propose_if_sooner(without(Without::kSegment), with_group([](GroupSpec& g) { g.segment = 0; }));
    const int conditions = has_level + (group.switches_max != 0) + (group.segment > 1);
    if (out_.suggestions.size() == before && conditions > 1)
      propose_if_sooner(without(Without::kTopology), with_group([](GroupSpec& g) {
                          g.topology_level.clear();
                          g.switches_max = g.segment = 0;
                        }));
  }
  // The nearest level above `name` that helps, or none at all.
  void wider_level(const std::string& name) {
    std::vector<std::string> outer;
    if (const Ref<Topology>& tree = search_.tables.topology) {
      const auto& levels = tree->levels;
      const auto here = std::find(levels.begin(), levels.end(), name);
      if (here != levels.end())
        outer.assign(std::make_reverse_iterator(here), levels.rend());
    }
    outer.emplace_back();
    for (const std::string& wider : outer) {
      auto then = with_group([&](GroupSpec& g) { g.topology_level = wider.empty() ? "" : "!" + wider; });
      if (!then || !sooner(*then))
        continue;
      return propose(wider.empty() ? without(Without::kLevel, name) : remedy::WiderLevel{wider, name},
                     std::move(*then));
    }
  }
  void more_switches(const GroupSpec& group) {
    const std::uint32_t have = group.switches_max;
    const std::uint32_t most = std::max({have + 1, group.nodes.min, group.tasks.min});
    const auto at = [&](std::uint32_t fewer) {
      return with_group([&](GroupSpec& g) { g.switches_max = fewer == 0 ? 0 : most - fewer; });
    };
    for (const Ladder& step : climb(0, most - have, most - have - 1, at))
      propose(step.value == 0 ? without(Without::kSwitches) : remedy::MoreSwitches{most - step.value, have}, step.then);
  }

  // Running jobs that would make way by moving. Where the cluster does that by itself, it has been planned already.
  void moves() {
    if (held() || job_.array || search_.core.defragment)
      return;
    if (out_.plans >= search_.settings.plans_max) {
      out_.all_tried = false;
      return;
    }
    ++out_.plans;
    CoreSettings core = search_.core;
    core.defragment = true;
    ClusterCopy copy(lean_, search_.clock, core);
    copy.plan();
    remedy::MoveJobs moves;
    std::int64_t loss_ms = 0;
    for (const auto& [id, job] : copy.tables().jobs)
      if (job->eviction && job->eviction->by == job_.id && job->promise) {
        moves.jobs.push_back(id);
        loss_ms += move_loss(*job, copy.now()).work;
      }
    moves.device_minutes_lost = (loss_ms + 59'999) / 60'000;
    if (Foreseen then = copy.foresee(job_.id); !moves.jobs.empty() && sooner(then))
      propose(std::move(moves), std::move(then));
  }

  const Search& search_;
  Explanation& out_;
  const Job& job_;
  Tables lean_;
};

}  // namespace

void suggest(const Search& search, Explanation& into) { Searcher(search, into).run(); }

}  // namespace lockstep
