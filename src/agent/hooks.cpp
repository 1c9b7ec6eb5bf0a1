#include "agent/hooks.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {
namespace {

// Each is either made anew by the controller for every launch, or taken out of what the user gave.
constexpr std::array<std::string_view, 29> kTold = {
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_STEP",
    "SLURM_CLUSTER_NAME",
    "SLURM_CPUS_ON_NODE",
    "SLURM_JOBID",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_JOB_END_TIME",
    "SLURM_JOB_GID",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_ID",
    "SLURM_JOB_LICENSES",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_QOS",
    "SLURM_JOB_RESERVATION",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_UID",
    "SLURM_JOB_USER",
    "SLURM_NNODES",
    "SLURM_NODELIST",
    "SLURM_RESTART_COUNT",
    "SLURM_TASKS_PER_NODE",
};
constexpr std::size_t kValueMax = 64 << 10;  // a list of nodes is the longest
constexpr Duration kKillWait = seconds(2);

bool is_told(const std::string& line) {
  const auto mark = line.find('=');
  return mark != line.npos && line.size() <= kValueMax &&
         std::binary_search(kTold.begin(), kTold.end(), std::string_view(line).substr(0, mark));
}

// What Slurm shows as the signal of one that its memory's limit ended is none.
int signal_shown(const ExitStatus& exit) { return exit.oom ? 125 : exit.signal; }

void set(std::vector<std::string>& env, const std::string& name, const std::string& value) {
  std::erase_if(env, [&](const std::string& line) { return line.starts_with(name + "="); });
  env.push_back(name + "=" + value);
}

}  // namespace

std::vector<std::string> hook_environment(JobId job, std::uint32_t uid, const std::string& node) {
  std::vector<std::string> env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  set(env, "SLURM_JOB_ID", format("{}", job.value));
  set(env, "SLURM_JOBID", format("{}", job.value));
  set(env, "SLURM_JOB_UID", format("{}", uid));
  set(env, "SLURM_UID", format("{}", uid));
  set(env, "SLURMD_NODENAME", node);
  return env;
}

std::vector<std::string> hook_environment(const LaunchAttempt& launch, const std::string& node) {
  static_assert(std::is_sorted(kTold.begin(), kTold.end()));
  std::vector<std::string> env = hook_environment(launch.job, launch.process.uid, node);
  set(env, "SLURM_JOB_GID", format("{}", launch.process.gid));
  if (!launch.process.work_dir.empty())
    set(env, "SLURM_JOB_WORK_DIR", launch.process.work_dir);
  for (const std::string& line : launch.process.env)
    if (is_told(line))
      set(env, line.substr(0, line.find('=')), line.substr(line.find('=') + 1));
  return env;
}

bool tell_end(std::vector<std::string>& env, const WorkId& work, const std::vector<TaskResult>& results) {
  constexpr std::string_view kWorst = "SLURM_JOB_DERIVED_EC=";
  const auto status_of = [](const ExitStatus& exit) { return exit.code << 8 | signal_shown(exit); };
  if (is_script(work) && !results.empty()) {
    const ExitStatus& exit = results.front().exit;
    set(env, "SLURM_JOB_EXIT_CODE", format("{}", status_of(exit)));
    set(env, "SLURM_JOB_EXIT_CODE2", format("{}:{}", exit.code, signal_shown(exit)));
    return true;
  }
  const auto known =
      std::find_if(env.begin(), env.end(), [&](const std::string& line) { return line.starts_with(kWorst); });
  std::int64_t worst = known == env.end() ? -1 : parse_int(known->substr(kWorst.size())).value_or(-1);
  const std::int64_t before = worst;
  for (const TaskResult& result : results) worst = std::max<std::int64_t>(worst, status_of(result.exit));
  if (is_script(work) || worst == before)
    return false;
  set(env, std::string(kWorst.substr(0, kWorst.size() - 1)), format("{}", worst));
  return true;
}

ShimStart hook_start(const WorkId& hook, std::vector<std::string> env) {
  CHECK(is_hook(hook) && !is_staging(hook), text_of(hook));
  const bool prolog = step_of(hook)->step == kPrologStep;
  set(env, "SLURM_SCRIPT_CONTEXT", prolog ? "prolog_slurmd" : "epilog_slurmd");
  ShimStart start{.key = hook, .launch = {}, .script = {}};
  start.launch.ranks = {0};
  start.launch.to_client = false;
  start.launch.kill_wait = kKillWait;
  start.launch.process.env = std::move(env);
  start.launch.process.work_dir = "/";
  return start;
}

std::string hook_failure(const WorkId& hook, const ShimEvent& end, bool stopped, Duration limit) {
  CHECK(is_hook(hook) && !is_staging(hook), text_of(hook));
  const char* name = step_of(hook)->step == kPrologStep ? "Prolog error" : "Epilog error";
  if (stopped)
    return format("{}: {}it took longer than {} s and was ended", name, end.why.empty() ? "" : end.why + ": ",
                  limit.seconds());
  if (end.what == ShimEvent::What::kFailed)
    return format("{}: {}", name, end.why);
  const ExitStatus exit = end.results.empty() ? ExitStatus{0, 9, false} : end.results.front().exit;
  if (exit.ok())
    return {};
  if (!end.why.empty() && exit.signal == 0)
    return format("{}: {}", name, end.why);
  if (!end.why.empty())
    return format("{}: {}: ended by signal {}", name, end.why, exit.signal);
  return exit.signal != 0 ? format("{}: ended by signal {}", name, exit.signal)
                          : format("{}: exit code {}", name, exit.code);
}

}  // namespace lockstep
