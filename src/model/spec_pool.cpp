#include "model/spec_pool.h"

#include <functional>
#include <string_view>

namespace lockstep {

namespace {

std::size_t hash_of(const JobSpec& spec) {
  std::size_t sum = spec.user.value;
  const auto add = [&sum](std::size_t part) { sum = sum * 0x9e3779b97f4a7c15 + part; };
  for (const std::string_view text :
       {std::string_view(spec.name), std::string_view(spec.script), std::string_view(spec.environment),
        std::string_view(spec.work_dir), std::string_view(spec.std_out), std::string_view(spec.command),
        std::string_view(spec.comment), std::string_view(spec.wckey), std::string_view(spec.std_in),
        std::string_view(spec.std_err)})
    add(std::hash<std::string_view>{}(text));
  for (const auto* pairs : {&spec.options.get(), &spec.labels.get()})
    for (const auto& [name, value] : *pairs) add(std::hash<std::string>{}(value));
  add(static_cast<std::size_t>(spec.time_limit.us));
  add(spec.dependencies.size());
  for (const Dependency& dependency : spec.dependencies) add(dependency.job.value);
  if (!spec.groups.empty())
    for (const std::string& word : spec.groups.front().argv) add(std::hash<std::string>{}(word));
  return sum;
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
