// The published policies (traces as the artifact of FGD, ATC'23, runs them), to be reproduced before they are beaten.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "simulate/workloads/pack_run.h"

namespace lockstep::sim {
namespace {

constexpr double kCpuMax = 128000, kGpuMax = 8000;  // what the artifact divides by

double free_gpu(const PackRoom& room) { return static_cast<double>(free_gpu_milli(room)); }

class Rival : public PackPolicy {
 public:
  explicit Rival(const PackTrace& trace) : trace_(trace) {}

 protected:
  std::int8_t tightest(const PackRoom& room, std::uint32_t shape) const {
    return static_cast<std::int8_t>(tightest_device(room, trace_.shapes[shape].milli));
  }
  const PackTrace& trace_;
};

class BestFit final : public Rival {
 public:
  using Rival::Rival;
  PackScore score(std::size_t, const PackRoom& room, std::uint32_t shape) override {
    const PackShape& s = trace_.shapes[shape];
    const double cpu = static_cast<double>(room.cpu_milli - s.cpu_milli) / kCpuMax;
    const double gpu = (free_gpu(room) - static_cast<double>(s.gpu_milli())) / kGpuMax;
    return {static_cast<std::int64_t>(100 * (1 - 0.5 * cpu - 0.5 * gpu)), tightest(room, shape)};
  }
};

class DotProduct final : public Rival {
 public:
  using Rival::Rival;
  PackScore score(std::size_t, const PackRoom& room, std::uint32_t shape) override {
    const PackShape& s = trace_.shapes[shape];
    const double cpu = static_cast<double>(room.cpu_milli) * static_cast<double>(s.cpu_milli) / (kCpuMax * kCpuMax);
    const double gpu = free_gpu(room) * static_cast<double>(s.gpu_milli()) / (kGpuMax * kGpuMax);
    return {static_cast<std::int64_t>(100 * (1 - (cpu + gpu) / 2)), tightest(room, shape)};
  }
};

class Random final : public Rival {
 public:
  Random(const PackTrace& trace, std::uint64_t seed) : Rival(trace), rng_(seed) {}
  bool arrives(std::span<const PackRoom>, std::uint32_t) override { return true; }
  PackScore score(std::size_t, const PackRoom& room, std::uint32_t shape) override {
    const std::uint16_t milli = trace_.shapes[shape].milli;
    int open[kPackDevicesMax], count = 0;
    for (int d = 0; d < room.devices; ++d)
      if (room.free_milli[d] >= milli)
        open[count++] = d;
    const int device = count == 0 ? -1 : open[rng_.below(static_cast<std::uint64_t>(count))];
    return {static_cast<std::int64_t>(rng_.next() >> 2), static_cast<std::int8_t>(device)};
  }

 private:
  Rng rng_;
};

class Fgd final : public Rival {
 public:
  explicit Fgd(const PackTrace& trace) : Rival(trace), fragmentation_(trace) {}
  PackScore score(std::size_t, const PackRoom& room, std::uint32_t shape) override {
    const PackShape& s = trace_.shapes[shape];
    const double before = of(room);
    PackScore best{-1, -1};
    const auto look = [&](int device) {
      PackRoom after = room;
      take(after, s, device);
      const double gain = (before - of(after)) / 1000;
      const auto score = static_cast<std::int64_t>(100 / (1 + std::exp(-gain)));
      if (score > best.score)
        best = {score, static_cast<std::int8_t>(device)};
    };
    if (s.devices != 1) {
      look(-1);
    } else {
      for (int d = 0; d < room.devices; ++d)
        if (room.free_milli[d] >= s.milli)
          look(d);
    }
    return best;
  }

 private:
  double of(const PackRoom& room) {
    auto free = room.free_milli;
    std::sort(free.begin(), free.begin() + room.devices);
    const auto [at, fresh] = memo_.try_emplace({room.cpu_milli, room.kind, room.devices, free}, 0.0);
    if (fresh)
      at->second = fragmentation_.of(room);
    return at->second;
  }
  using Key = std::tuple<std::int64_t, std::uint16_t, std::uint8_t, std::array<std::uint16_t, kPackDevicesMax>>;
  Fragmentation fragmentation_;
  std::map<Key, double> memo_;
};

}  // namespace

Fragmentation::Fragmentation(const PackTrace& trace) {
  std::map<std::tuple<std::int64_t, std::uint8_t, std::uint16_t, std::uint64_t>, int> count;
  for (const std::uint32_t pod : trace.pods) {
    const PackShape& s = trace.shapes[pod];
    ++count[{s.cpu_milli, s.devices, s.milli, s.kinds}];
  }
  std::vector<std::pair<int, std::tuple<std::int64_t, std::uint8_t, std::uint16_t, std::uint64_t>>> order;
  for (const auto& [key, n] : count) order.emplace_back(-n, key);
  std::sort(order.begin(), order.end());
  double covered = 0;
  for (const auto& [n, key] : order) {
    if (covered >= 0.95 * static_cast<double>(trace.pods.size()))
      break;
    const auto& [cpu, devices, milli, kinds] = key;
    typical_.push_back({cpu, devices, milli, kinds, static_cast<double>(-n)});
    covered -= n;
  }
  for (Typical& t : typical_) t.weight /= covered;
}

double Fragmentation::of(const PackRoom& room) const {
  double sum = 0;
  const auto idle = static_cast<double>(free_gpu_milli(room));
  for (const Typical& t : typical_) {
    double lost = 0;
    int open = 0;
    for (int d = 0; d < room.devices; ++d) {
      if (room.free_milli[d] >= t.milli)
        ++open;
      else
        lost += room.free_milli[d];
    }
    const bool useless =
        t.devices == 0 || t.cpu_milli > room.cpu_milli || !(t.kinds >> room.kind & 1) || open < t.devices;
    sum += t.weight * (useless ? idle : lost);
  }
  return sum;
}

std::unique_ptr<PackPolicy> make_policy(PackRule rule, const PackTrace& trace, std::uint64_t seed) {
  switch (rule) {
    case PackRule::kRandom: return std::make_unique<Random>(trace, seed);
    case PackRule::kDotProduct: return std::make_unique<DotProduct>(trace);
    case PackRule::kBestFit: return std::make_unique<BestFit>(trace);
    case PackRule::kFgd: return std::make_unique<Fgd>(trace);
    case PackRule::kDefaultKnown:
    case PackRule::kDefaultOnline: break;
  }
  CHECK(false);
}

}  // namespace lockstep::sim
