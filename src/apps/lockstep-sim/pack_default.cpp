// The product's own policy in the packing experiment: sched/packing.h, with the mix told or learnt.
#include "pack_run.h"
#include "sched/packing.h"

namespace lockstep::sim {
namespace {

constexpr float kUnknown = -1;

class Default final : public PackPolicy {
 public:
  Default(const PackTrace& trace, PackMixSource source) : trace_(trace), packer_(make(trace, source)) {}

  bool arrives(std::span<const PackRoom> rooms, std::uint32_t shape) override {
    const bool moved = packer_.arrives(trace_.shapes[shape], rooms);
    if (moved)
      values_.assign(rooms.size(), kUnknown);
    return moved;
  }
  PackScore score(std::size_t node, const PackRoom& room, std::uint32_t shape) override {
    float& value = values_[node];
    if (value == kUnknown)
      value = packer_.value(room);
    const PackCost cost = packer_.cost(room, value, trace_.shapes[shape]);
    return {-cost.milli, cost.device};
  }
  void placed(std::size_t node, std::uint32_t) override { values_[node] = kUnknown; }

 private:
  static Packer make(const PackTrace& trace, PackMixSource source) {
    const PackSettings settings;
    PackMix mix(settings.half_life, settings.classes_max);
    if (source == PackMixSource::kTold)
      for (const std::uint32_t pod : trace.pods) mix.add(trace.shapes[pod]);
    std::int64_t cpu_milli = 0;
    for (const PackRoom& node : trace.nodes) cpu_milli += node.cpu_milli;
    return Packer(settings, source, std::move(mix), trace.kinds.size(), trace.gpu_milli, cpu_milli);
  }

  const PackTrace& trace_;
  Packer packer_;
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<PackPolicy> make_default(const PackTrace& trace, bool told) {
  return std::make_unique<Default>(trace, told ? PackMixSource::kTold : PackMixSource::kLearnt);
}

}  // namespace lockstep::sim
