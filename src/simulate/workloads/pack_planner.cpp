// The product itself in the packing experiment: pods are jobs of the real core, placed by the real planner. A core of
// theirs is a quarter of the trace's, and a pod asks for whole ones: at most 250 thousandths more than it would need.
#include <map>

#include "base/text.h"
#include "core/cluster.h"
#include "model/job.h"
#include "model/spec.h"
#include "sched/packing.h"
#include "sched/planner.h"
#include "simulate/caller.h"
#include "simulate/workloads/pack_run.h"

namespace lockstep::sim {
namespace {

constexpr std::int64_t kCoreMilli = 250;

std::uint32_t cores_of(const PackShape& shape) {
  return static_cast<std::uint32_t>(std::max<std::int64_t>(1, (shape.cpu_milli + kCoreMilli - 1) / kCoreMilli));
}

class PlannerWorld final : public PackWorld {
 public:
  PlannerWorld(const PackTrace& trace, std::vector<PackRoom> rooms, bool told)
      : trace_(trace), rooms_(std::move(rooms)) {
    must(StartEpoch{"pack"});
    User user;
    user.meta.name = "somebody";
    user.uid = 1000;
    must(PutUser{user});
    Partition partition;
    partition.meta.name = "main";
    partition.nodes = {"ALL"};
    partition.is_default = true;
    must(PutPartition{partition});
    for (std::size_t n = 0; n < rooms_.size(); ++n) must(NodeHello{node_of(n)});
    for (const PackShape& shape : trace.shapes) specs_.push_back(spec_of(shape));
    if (told) {
      Plan plan;
      plan.packings.push_back({0, std::make_shared<const Packing>(settled())});
      must(ApplyPlan{std::move(plan)});
      CHECK(state_.tables().packing, "the core refused the mix");
    }
  }

  std::ptrdiff_t arrive(std::uint32_t shape) override {
    now_ = now_ + seconds(1);
    auto submitted = apply(state_, {kAdmin, SubmitJob{.spec = specs_[shape]}}, now_);
    if (!submitted.ok())
      return -1;  // on no node, whatever runs
    std::move(submitted->changes.begin(), submitted->changes.end(), std::back_inserter(unseen_));
    const JobId id = submitted->answer.job;
    plan();
    const Job& job = *state_.tables().job(id);
    if (!job.allocation) {
      must(CancelJob{{id, {}}});
      return -1;
    }
    const Grant& grant = job.allocation->grants.at(0);
    const std::size_t node = number_of_.at(grant.node);
    PackRoom& room = rooms_[node];
    room.cpu_milli -= trace_.shapes[shape].cpu_milli;
    room.memory_mib -= trace_.shapes[shape].memory_mib;
    grant.devices.for_each([&](std::uint32_t d) { room.free_milli[d] = 0; });
    for (const DevicePart& part : grant.parts) room.free_milli[part.device] -= part.milli;
    return static_cast<std::ptrdiff_t>(node);
  }
  const PackRoom& room(std::size_t node) const override { return rooms_[node]; }

 private:
  Answer must(CommandBody body) {
    auto outcome = apply(state_, {kAdmin, std::move(body)}, now_);
    CHECK(outcome.ok(), outcome.ok() ? "" : outcome.error().message);
    std::move(outcome->changes.begin(), outcome->changes.end(), std::back_inserter(unseen_));
    return outcome->answer;
  }

  Node node_of(std::size_t number) {
    const PackRoom& room = rooms_[number];
    Node node;
    node.meta.name = format("n{}", number + 1);
    node.boot_id = "1";
    node.cores = static_cast<std::uint32_t>(room.cpu_milli / kCoreMilli);
    node.memory_mb = room.memory_mib;
    if (room.devices > 0)
      node.features = {trace_.kinds[room.kind]};
    for (std::uint32_t d = 0; d < room.devices; ++d) node.devices.push_back({.type = model_of(room.kind), .minor = d});
    number_of_[NodeId{static_cast<std::uint32_t>(number + 1)}] = number;
    return node;
  }
  std::string model_of(std::uint16_t kind) const { return lower(trace_.kinds[kind]); }

  Ref<JobSpec> spec_of(const PackShape& shape) const {
    GroupSpec group;
    group.nodes = group.tasks = {1, 1};
    group.per_task.cores = cores_of(shape);
    group.per_node.memory_mb = shape.memory_mib;
    if (shape.devices > 0)
      group.per_node.devices = {{.count = shape.devices, .milli = shape.milli}};
    std::vector<std::string> models;
    for (std::uint16_t kind = 0; kind < trace_.kinds.size(); ++kind)
      if (shape.allows(kind))
        models.push_back(trace_.kinds[kind]);
    if (models.size() < trace_.kinds.size())
      group.constraint = models.empty() ? "none" : join(models, "|");
    JobSpec spec;
    spec.user = UserId{1};
    spec.groups = {group};
    return std::make_shared<const JobSpec>(std::move(spec));
  }

  // What a planner would have learnt from the whole list, on the idle cluster.
  Packing settled() const {
    PackGround ground;
    for (std::uint16_t kind = 0; kind < trace_.kinds.size(); ++kind) ground.models.push_back(model_of(kind));
    std::sort(ground.models.begin(), ground.models.end());
    const auto kind_now = [&](std::uint16_t kind) {
      const auto at = std::lower_bound(ground.models.begin(), ground.models.end(), model_of(kind));
      return static_cast<std::uint16_t>(at - ground.models.begin());
    };
    std::map<PackRoom, double> count;
    for (PackRoom room : rooms_) {
      room.cpu_milli = room.cpu_milli / kCoreMilli * 1000;
      room.memory_mib = 0;
      room.kind = kind_now(room.kind);
      ground.gpu_milli += free_gpu_milli(room);
      ground.cpu_milli += room.cpu_milli;
      ++count[room];
    }
    std::vector<PackStock> stock;
    for (const auto& [room, nodes] : count) stock.push_back({room, nodes});
    PackArrivals arrivals;
    for (const std::uint32_t pod : trace_.pods) {
      const PackShape& shape = trace_.shapes[pod];
      if (shape.devices == 0)
        continue;
      PackRequest request{std::int64_t{cores_of(shape)} * 1000, shape.devices, shape.milli, {}};
      for (std::uint16_t kind = 0; kind < trace_.kinds.size(); ++kind)
        if (shape.allows(kind))
          request.models.push_back(model_of(kind));
      std::sort(request.models.begin(), request.models.end());
      if (request.models.size() == ground.models.size())
        request.models.clear();
      ++arrivals[request];
    }
    Packing mix = next_packing({}, nullptr, {}, arrivals, ground, stock);
    for (std::uint64_t steps = 0; mix.steps != steps;) {
      steps = mix.steps;
      mix = next_packing({}, &mix, {}, {}, ground, stock);
    }
    return mix;
  }

  void plan() {
    planner_.observe(unseen_);
    unseen_.clear();
    for (bool due = planner_.wake_at() <= now_; due || !planner_.idle(); due = false) {
      PlanChunk chunk = planner_.plan(now_, {});
      if (!chunk.empty()) {
        must(ApplyPlan{Plan(std::move(chunk))});
        planner_.observe(unseen_);
        unseen_.clear();
      }
      planner_.settled();
    }
  }

  const PackTrace& trace_;
  std::vector<PackRoom> rooms_;
  std::vector<Ref<JobSpec>> specs_;  // by shape
  std::map<NodeId, std::size_t> number_of_;
  ClusterState state_;
  Planner planner_;
  Instant now_ = Instant{} + seconds(1);
  std::vector<Change> unseen_;
};

}  // namespace

std::unique_ptr<PackWorld> make_planner_world(const PackTrace& trace, std::vector<PackRoom> rooms, bool told) {
  return std::make_unique<PlannerWorld>(trace, std::move(rooms), told);
}

}  // namespace lockstep::sim
