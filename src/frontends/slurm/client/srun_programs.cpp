#include "frontends/slurm/client/srun_programs.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/resource_ask.h"
#include "model/bounds.h"

namespace lockstep::slurm {

namespace {

Error different(std::size_t component, std::string_view option) {
  return {
      Errc::kUnsupported,
      format("component {}: --{} different from the first component's is not supported yet; start one srun for each, "
             "or run them with --multi-prog",
             component, option),
      std::string(option)};
}

// What speaks of resources holds for the component that it is given with; all else, given with the first, for all.
bool is_of_resources(std::string_view name) {
  static constexpr std::string_view kNames[] = {"nodes",
                                                "nodelist",
                                                "nodefile",
                                                "exclude",
                                                "cpus-per-task",
                                                "gpus",
                                                "gres",
                                                "gpus-per-node",
                                                "gpus-per-task",
                                                "ntasks-per-node",
                                                "ntasks-per-gpu",
                                                "tres-per-task",
                                                "mem",
                                                "mem-per-cpu",
                                                "mem-per-gpu",
                                                "constraint",
                                                "partition",
                                                "cpus-per-gpu",
                                                "exclusive",
                                                "het-group",
                                                "relative",
                                                "distribution",
                                                "gpu-bind",
                                                "ntasks-per-core",
                                                "overcommit",
                                                "multi-prog",
                                                "pty"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Result<void> check_alike(const OptionSet& first, const OptionSet& other, std::size_t component) {
  for (const auto& [name, text] : first.verbatim())
    if (name != "ntasks" && is_of_resources(name) && (!other.has(name) || other.text(name) != text))
      return different(component, name);
  for (const auto& [name, text] : other.verbatim())
    if (name != "ntasks" && (!first.has(name) || first.text(name) != text))
      return different(component, name);
  return {};
}

}  // namespace

Result<Programs> programs_of(const Invocation& invocation, bool in_het_job) {
  const auto& components = invocation.components;
  if (in_het_job)
    return Error{Errc::kUnsupported,
                 "one srun over several components of a heterogeneous job is not supported yet; start one srun "
                 "--het-group=N for each",
                 {}};
  Programs out{components.front(), {}};
  for (std::size_t i = 0; i < components.size(); ++i) {
    const OptionSet& options = components[i];
    if (invocation.words[i].empty())
      return invalid(format("No command given to execute in component {}.", i));
    TRY(check_alike(components.front(), options, i));
    if (options.has("pty") || options.has("multi-prog"))
      return unsupported(options, options.has("pty") ? "pty" : "multi-prog", "does not go with several components (:)");
    const std::uint32_t tasks =
        options.by("ntasks", Origin::kCommandLine) ? TRY(count_of(options, "ntasks", 1)) : std::uint32_t{1};
    if (tasks > kStepTasksMax - out.by_rank.size())
      return invalid(format("the components ask for more than {} tasks", kStepTasksMax), "tasks");
    out.by_rank.insert(out.by_rank.end(), tasks, invocation.words[i]);
  }
  TRY(out.options.set("ntasks", {std::to_string(out.by_rank.size()), Origin::kCommandLine, 0, {}}));
  return out;
}

}  // namespace lockstep::slurm
