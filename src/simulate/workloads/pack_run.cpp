// The loop of the packing experiment. Scores are kept per shape and node and worked out again where a node has changed.
#include "simulate/workloads/pack_run.h"

#include <algorithm>
#include <cmath>

#include "simulate/command.h"

namespace lockstep::sim {
namespace {

constexpr std::int64_t kNoRoom = INT64_MIN;

class Experiment final : public PackWorld {
 public:
  Experiment(const PackTrace& trace, std::unique_ptr<PackPolicy> policy, std::vector<PackRoom> rooms)
      : trace_(trace), policy_(std::move(policy)), rooms_(std::move(rooms)), known_(trace.shapes.size()) {}

  std::ptrdiff_t arrive(std::uint32_t shape) override {
    if (policy_->arrives(rooms_, shape))
      ++epoch_;
    Known& known = refresh(shape);
    const auto best = std::max_element(known.score.begin(), known.score.end());  // the first of equals
    if (*best == kNoRoom)
      return -1;
    const auto node = static_cast<std::size_t>(best - known.score.begin());
    take(rooms_[node], trace_.shapes[shape], known.device[node]);
    changed_.push_back(static_cast<std::uint32_t>(node));
    policy_->placed(node, shape);
    return static_cast<std::ptrdiff_t>(node);
  }
  const PackRoom& room(std::size_t node) const override { return rooms_[node]; }

 private:
  struct Known {
    std::vector<std::int64_t> score;
    std::vector<std::int8_t> device;
    std::uint64_t epoch = 0;
    std::size_t seen = 0;  // of changed_
  };

  Known& refresh(std::uint32_t shape) {
    Known& known = known_[shape];
    if (known.score.empty() || known.epoch != epoch_ || changed_.size() - known.seen >= rooms_.size()) {
      known.score.resize(rooms_.size());
      known.device.resize(rooms_.size());
      for (std::size_t node = 0; node < rooms_.size(); ++node) look(known, node, shape);
    } else {
      for (std::size_t i = known.seen; i < changed_.size(); ++i) look(known, changed_[i], shape);
    }
    known.epoch = epoch_;
    known.seen = changed_.size();
    return known;
  }
  void look(Known& known, std::size_t node, std::uint32_t shape) {
    if (!fits(rooms_[node], trace_.shapes[shape])) {
      known.score[node] = kNoRoom;
      return;
    }
    const PackScore score = policy_->score(node, rooms_[node], shape);
    known.score[node] = score.score;
    known.device[node] = score.device;
  }

  const PackTrace& trace_;
  std::unique_ptr<PackPolicy> policy_;
  std::vector<PackRoom> rooms_;
  std::vector<Known> known_;
  std::vector<std::uint32_t> changed_;
  std::uint64_t epoch_ = 1;
};

}  // namespace

// One run: pods arrive in an order drawn from the seed until they ask for kDemandPercent of the cluster's GPUs.
PackCurve run_pack(const PackTrace& trace, PackRule rule, std::uint64_t seed, const Fragmentation* fragmentation) {
  Rng rng(seed);
  const std::vector<std::uint32_t> arrivals = make_arrivals(trace, kDemandPercent, rng);
  std::vector<PackRoom> rooms;
  for (const std::uint32_t node : shuffled(trace.nodes.size(), rng)) rooms.push_back(trace.nodes[node]);
  std::vector<double> fragments(rooms.size());
  double fragment_sum = 0;
  if (fragmentation)
    for (std::size_t i = 0; i < rooms.size(); ++i) fragment_sum += fragments[i] = fragmentation->of(rooms[i]);

  std::unique_ptr<PackWorld> world;
  if (rule == PackRule::kDefaultKnown || rule == PackRule::kDefaultOnline)
    world = make_planner_world(trace, std::move(rooms), rule == PackRule::kDefaultKnown);
  else
    world = std::make_unique<Experiment>(trace, make_policy(rule, trace, seed), std::move(rooms));
  PackCurve curve;
  std::array<int, kDemandPercent + 2> count{};
  const auto capacity = static_cast<double>(trace.gpu_milli);
  std::int64_t asked = 0, placed = 0;
  double seconds = 0;
  for (const std::uint32_t shape : arrivals) {
    asked += trace.shapes[shape].gpu_milli();
    const double before = wall_seconds();
    const std::ptrdiff_t node = world->arrive(shape);
    seconds += wall_seconds() - before;
    if (node >= 0) {
      placed += trace.shapes[shape].gpu_milli();
      if (fragmentation) {
        const auto i = static_cast<std::size_t>(node);
        fragment_sum -= fragments[i];
        fragment_sum += fragments[i] = fragmentation->of(world->room(i));
      }
    }
    const auto percent = static_cast<std::size_t>(std::lround(100 * static_cast<double>(asked) / capacity));
    if (percent > kDemandPercent)
      continue;  // a last gang that overshoots
    ++count[percent];
    curve.alloc_pct[percent] += 100 * static_cast<double>(placed) / capacity;
    curve.frag_pct[percent] += 100 * fragment_sum / capacity;
  }
  for (std::size_t i = 0; i <= kDemandPercent; ++i) {
    if (count[i] > 0) {
      curve.alloc_pct[i] /= count[i];
      curve.frag_pct[i] /= count[i];
    } else if (i > 0) {  // a small cluster: one arrival is more than a per cent
      curve.alloc_pct[i] = curve.alloc_pct[i - 1];
      curve.frag_pct[i] = curve.frag_pct[i - 1];
    }
  }
  curve.us_a_pod = 1e6 * seconds / static_cast<double>(arrivals.size());
  return curve;
}

}  // namespace lockstep::sim
