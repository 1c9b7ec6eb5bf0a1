// Reading the openb lists and making arrivals of them.
#include "simulate/workloads/pack_trace.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/text.h"
#include "sim/trace_file.h"

namespace lockstep::sim {
namespace {

constexpr std::int64_t kCpuMilliMax = 1'000'000'000, kMemoryMibMax = 1'000'000'000;

Result<std::uint16_t> kind_of(PackTrace& trace, const TraceFile& file, std::size_t column) {
  const std::string_view model = file.text(column);
  if (model.empty())
    return file.wrong(column, "the node has GPUs and no model");
  const auto found = std::find(trace.kinds.begin(), trace.kinds.end(), model);
  if (found == trace.kinds.end()) {
    if (trace.kinds.size() == kPackKindsMax)
      return file.wrong(column, format("more than {} GPU models", kPackKindsMax));
    trace.kinds.emplace_back(model);
    return static_cast<std::uint16_t>(trace.kinds.size() - 1);
  }
  return static_cast<std::uint16_t>(found - trace.kinds.begin());
}

Result<void> read_nodes(PackTrace& trace, const std::string& path) {
  TraceFile file = TRY(TraceFile::open(path));
  const std::size_t cpu = TRY(file.column("cpu_milli")), memory = TRY(file.column("memory_mib"));
  const std::size_t gpu = TRY(file.column("gpu")), model = TRY(file.column("model"));
  while (TRY(file.next())) {
    PackRoom node;
    node.cpu_milli = TRY(file.integer(cpu, 0, kCpuMilliMax));
    node.memory_mib = TRY(file.integer(memory, 0, kMemoryMibMax));
    node.devices = static_cast<std::uint8_t>(TRY(file.integer(gpu, 0, kPackDevicesMax)));
    std::fill_n(node.free_milli.begin(), node.devices, kPackDeviceMilli);
    if (node.devices > 0)
      node.kind = TRY(kind_of(trace, file, model));
    trace.gpu_milli += node.devices * kPackDeviceMilli;
    trace.nodes.push_back(node);
  }
  if (trace.gpu_milli == 0)
    return invalid(format("{}: no node has a GPU", path));
  return {};
}

Result<std::uint64_t> kinds_of(const PackTrace& trace, const TraceFile& file, std::size_t column) {
  const std::string_view spec = file.text(column);
  if (spec.empty())
    return ~std::uint64_t{0};
  std::uint64_t kinds = 0;
  for (const std::string& model : split(spec, '|')) {
    if (model.empty())
      return file.wrong(column, format("\"{}\" has an empty model", spec));
    const auto found = std::find(trace.kinds.begin(), trace.kinds.end(), model);
    if (found != trace.kinds.end())
      kinds |= std::uint64_t{1} << (found - trace.kinds.begin());
  }
  return kinds;
}

Result<void> read_pods(PackTrace& trace, const std::string& path) {
  TraceFile file = TRY(TraceFile::open(path));
  const std::size_t name = TRY(file.column("name"));
  const std::size_t cpu = TRY(file.column("cpu_milli")), memory = TRY(file.column("memory_mib"));
  const std::size_t count = TRY(file.column("num_gpu")), milli = TRY(file.column("gpu_milli"));
  const bool has_spec = file.has_column("gpu_spec");
  const std::size_t spec = has_spec ? TRY(file.column("gpu_spec")) : 0;
  std::map<PackShape, std::uint32_t> known;
  std::vector<std::pair<std::string, std::uint32_t>> pods;
  while (TRY(file.next())) {
    PackShape shape;
    shape.cpu_milli = TRY(file.integer(cpu, 0, kCpuMilliMax));
    shape.memory_mib = TRY(file.integer(memory, 0, kMemoryMibMax));
    shape.devices = static_cast<std::uint8_t>(TRY(file.integer(count, 0, kPackDevicesMax)));
    if (shape.devices == 1)
      shape.milli = static_cast<std::uint16_t>(TRY(file.integer(milli, 1, kPackDeviceMilli)));
    else if (shape.devices > 1)
      shape.milli = static_cast<std::uint16_t>(kPackDeviceMilli);
    if (has_spec && shape.devices > 0)
      shape.kinds = TRY(kinds_of(trace, file, spec));
    const auto [at, fresh] = known.try_emplace(shape, static_cast<std::uint32_t>(trace.shapes.size()));
    if (fresh)
      trace.shapes.push_back(shape);
    pods.emplace_back(file.text(name), at->second);
  }
  std::sort(pods.begin(), pods.end());
  for (const auto& [_, shape] : pods) trace.pods.push_back(shape);
  return {};
}

}  // namespace

Result<PackTrace> read_pack_trace(const std::string& nodes_path, const std::string& pods_path) {
  PackTrace trace;
  TRY(read_nodes(trace, nodes_path));
  TRY(read_pods(trace, pods_path));
  std::int64_t asked = 0;
  for (const std::uint32_t pod : trace.pods) asked += trace.shapes[pod].gpu_milli();
  if (asked == 0)
    return invalid(format("{}: no pod asks for a GPU", pods_path));
  return trace;
}

std::vector<std::uint32_t> shuffled(std::size_t count, Rng& rng) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

std::vector<std::uint32_t> make_arrivals(const PackTrace& trace, int percent, Rng& rng) {
  std::vector<std::uint32_t> arrivals;
  std::int64_t asked = 0;
  for (const std::uint32_t pod : shuffled(trace.pods.size(), rng)) {
    arrivals.push_back(trace.pods[pod]);
    asked += trace.shapes[arrivals.back()].gpu_milli();
  }
  const std::int64_t limit = trace.gpu_milli * percent / 100;
  while (asked > limit) {
    const std::size_t gone = rng.below(arrivals.size());
    asked -= trace.shapes[arrivals[gone]].gpu_milli();
    arrivals.erase(arrivals.begin() + static_cast<std::ptrdiff_t>(gone));
  }
  for (;;) {
    const std::uint32_t shape = trace.pods[rng.below(trace.pods.size())];
    if (asked + trace.shapes[shape].milli > limit)  // the published experiment looks at one device's share here
      return arrivals;
    arrivals.push_back(shape);
    asked += trace.shapes[shape].gpu_milli();
  }
}

}  // namespace lockstep::sim
