#include "agent/staging.h"

#include "base/check.h"
#include "base/text.h"
#include "model/staging.h"

namespace lockstep {
namespace {

constexpr Duration kStageKillWait = seconds(1);

}  // namespace

StagingPlan staging_plan(const LaunchAttempt& launch) {
  StagingPlan plan;
  plan.in = launch.stage_in;
  plan.out = launch.stage_out;
  plan.checkpoint_file = launch.checkpoint_file;
  plan.checkpoint_line = launch.checkpoint_line;
  plan.gid = launch.process.gid;
  plan.groups = launch.process.groups;
  plan.work_dir = launch.process.work_dir;
  plan.umask = launch.process.umask;
  plan.append = launch.process.append;
  if (launch.has_script) {
    plan.std_out = launch.process.std_out;
    plan.std_err = launch.process.std_err;
  }
  return plan;
}

bool is_needed(const StagingPlan& plan) {
  return !plan.in.empty() || !plan.out.empty() || !plan.checkpoint_file.empty() || !plan.checkpoint_line.empty();
}

ShimStart stage_start(const WorkId& staging, std::uint32_t uid, const StagingPlan& plan) {
  CHECK(is_staging(staging), text_of(staging));
  const bool out = step_of(staging)->step == kStageOutStep;
  ShimStart start{.key = staging, .launch = {}, .script = {}};
  start.launch.ranks = {0};
  start.launch.to_client = false;
  start.launch.kill_wait = kStageKillWait;
  ProcessSpec& process = start.launch.process;
  process.uid = uid;
  process.gid = plan.gid;
  process.groups = plan.groups;
  process.work_dir = plan.work_dir;
  process.umask = plan.umask;
  process.std_out = plan.std_out;
  process.std_err = plan.std_err;
  process.append = plan.append || out;
  process.argv = words_of_staging(out, out ? plan.out : plan.in);
  return start;
}

std::string stage_failure(const ShimEvent& end, bool stopped, Duration limit) {
  if (stopped)
    return format("it took longer than {} s and was ended", limit.seconds());
  if (end.what == ShimEvent::What::kFailed)
    return end.why;
  const ExitStatus exit = end.results.empty() ? ExitStatus{0, 9, false} : end.results.front().exit;
  if (exit.ok())
    return {};
  if (exit.not_opened)
    return "the job's output cannot be opened";
  if (!end.why.empty())
    return end.why;
  return exit.signal != 0 ? format("ended by signal {}", exit.signal) : format("exit code {}", exit.code);
}

namespace {

void put_paths(std::vector<std::string>& words, const std::vector<StagedPath>& paths) {
  words.push_back(std::to_string(paths.size()));
  for (const StagedPath& path : paths) words.insert(words.end(), {path.from, path.to});
}

// Reads words in order; what is missing or no number makes it bad for good.
struct PlanWords {
  const std::vector<std::string>& words;
  std::size_t next = 0;
  bool ok = true;

  std::string text() {
    ok = ok && next < words.size();
    return ok ? words[next++] : std::string();
  }
  template <class T>
  T number() {
    const auto value = parse_int(text());
    ok = ok && value && static_cast<std::int64_t>(static_cast<T>(*value)) == *value;
    return ok ? static_cast<T>(*value) : T{};
  }
  std::vector<StagedPath> paths() {
    std::vector<StagedPath> out;
    const auto count = number<std::uint16_t>();
    for (std::uint16_t i = 0; ok && i < count; ++i) {
      StagedPath path;
      path.from = text();
      path.to = text();
      out.push_back(std::move(path));
    }
    return out;
  }
};

}  // namespace

std::vector<std::string> words_of(const StagingPlan& plan) {
  std::vector<std::string> words = {std::to_string(plan.gid),
                                    std::to_string(plan.umask),
                                    std::to_string(plan.append ? 1 : 0),
                                    plan.work_dir,
                                    plan.std_out,
                                    plan.std_err,
                                    plan.checkpoint_file,
                                    plan.checkpoint_line};
  words.push_back(std::to_string(plan.groups.size()));
  for (const std::uint32_t group : plan.groups) words.push_back(std::to_string(group));
  put_paths(words, plan.in);
  put_paths(words, plan.out);
  return words;
}

std::optional<StagingPlan> plan_of_words(const std::vector<std::string>& words) {
  PlanWords in{words};
  StagingPlan plan;
  plan.gid = in.number<std::uint32_t>();
  plan.umask = in.number<std::int32_t>();
  plan.append = in.number<int>() != 0;
  plan.work_dir = in.text();
  plan.std_out = in.text();
  plan.std_err = in.text();
  plan.checkpoint_file = in.text();
  plan.checkpoint_line = in.text();
  const auto groups = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; in.ok && i < groups; ++i) plan.groups.push_back(in.number<std::uint32_t>());
  plan.in = in.paths();
  plan.out = in.paths();
  return in.ok && in.next == words.size() ? std::optional(plan) : std::nullopt;
}

}  // namespace lockstep
