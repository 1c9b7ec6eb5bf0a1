#include "model/spec_pool.h"

#include <functional>
#include <string_view>

#include "model/meta.h"

namespace lockstep {

namespace {

struct Hash {
  std::size_t sum;
  void add(std::size_t part) { sum = sum * 0x9e3779b97f4a7c15 + part; }
  void add(std::string_view text) { add(std::hash<std::string_view>{}(text)); }
  void add(const CountRange& range) {
    add(range.min);
    add(range.max);
  }
  void add(const std::vector<DeviceAsk>& asks) {
    for (const DeviceAsk& ask : asks) {
      add(ask.kind);
      add(ask.type);
      add(ask.count);
    }
  }
  void add(const Resources& amounts) {
    add(amounts.cores);
    add(static_cast<std::size_t>(amounts.memory_mb));
    add(amounts.devices);
  }
  void add(const GroupSpec& group) {
    add(group.tasks);
    add(group.nodes);
    add(group.tasks_per_node);
    add(group.per_task);
    add(group.per_node);
    add(group.per_job);
    add(static_cast<std::size_t>(group.memory_per_core_mb));
    add(static_cast<std::size_t>(group.memory_per_device_mb));
    add(group.constraint);
    for (const std::string& node : group.only_nodes) add(node);
    for (const std::string& word : group.argv) add(word);
  }
};

std::size_t hash_of(const JobSpec& spec) {
  Hash hash{spec.user.value};
  for (const std::string_view text :
       {std::string_view(spec.name), std::string_view(spec.script), std::string_view(spec.environment),
        std::string_view(spec.work_dir), std::string_view(spec.std_out), std::string_view(spec.command),
        std::string_view(spec.comment), std::string_view(spec.wckey), std::string_view(spec.std_in),
        std::string_view(spec.std_err)})
    hash.add(text);
  for (const auto* pairs : {&spec.options.get(), &spec.labels.get()})
    for (const auto& [name, value] : *pairs) hash.add(value);
  hash.add(static_cast<std::size_t>(spec.time_limit.us));
  hash.add(spec.dependencies.size());
  for (const Dependency& dependency : spec.dependencies) hash.add(dependency.job.value);
  for (const GroupSpec& group : spec.groups) hash.add(group);
  return hash.sum;
}

}  // namespace

// Specifications that differ in what the hash leaves out meet in one place: only so many are compared, or whoever
// submits many of them would make reading them back quadratic.
constexpr int kComparedMost = 8;

Ref<JobSpec> SpecPool::share(Ref<JobSpec> spec) {
  const std::size_t hash = hash_of(*spec);
  const auto [begin, end] = specs_.equal_range(hash);
  int alike = 0;
  for (auto it = begin; it != end && alike < kComparedMost; ++it, ++alike)
    if (it->second == spec || *it->second == *spec)
      return it->second;
  if (last_) {
    auto parts_shared = std::make_shared<JobSpec>(*spec);
    share_parts(*parts_shared, *last_);
    spec = std::move(parts_shared);
  }
  last_ = spec;
  if (alike == kComparedMost)
    return spec;
  return specs_.emplace(hash, std::move(spec))->second;
}

}  // namespace lockstep
