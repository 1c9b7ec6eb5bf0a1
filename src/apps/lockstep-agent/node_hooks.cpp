#include "node_hooks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/characters.h"
#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/descriptor.h"
#include "io/hook_programs.h"
#include "model/hook_part.h"

namespace lockstep {
namespace {

constexpr std::size_t kOutputMax = 1 << 20;  // of one hook, that is looked at: the last of it
constexpr std::size_t kStageMost = 4096;     // of the word of a staging
constexpr std::size_t kLinesMax = 20;        // of it, that go into the log: the last ones

// The last of a file that a program has written as long as it liked.
std::string end_of_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts {};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return {};
  std::string text(kOutputMax, '\0');
  const off_t from = std::max<off_t>(0, facts.st_size - static_cast<off_t>(kOutputMax));
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), from);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

bool failed(const ShimEvent& event) { return event.results.empty() || !event.results.front().exit.ok(); }

}  // namespace

HookSettings hook_settings(const NodeHooks& hooks) {
  HookSettings out;
  out.prolog = !hooks.prolog.empty();
  out.epilog = !hooks.epilog.empty();
  out.prolog_limit = out.epilog_limit = seconds(hooks.timeout_s);
  out.staging_limit = seconds(hooks.staging_timeout_s);
  return out;
}

HookRunner::HookRunner(const AgentFile& settings) : settings_(settings) {
  if (::mkdir((settings_.state_dir + "/hooks").c_str(), 0700) != 0 && errno != EEXIST)
    log_line(LogLevel::kWarning, "lockstep-agent: " + settings_.state_dir + "/hooks cannot be made");
}

std::string HookRunner::output_of(const WorkId& hook) const {
  return settings_.state_dir + "/hooks/" + text_of(hook) + ".out";
}

std::optional<StageWord> HookRunner::staging_word(const WorkId& staging) const {
  const auto text = read_plain(format("{}/shims/{}/{}", settings_.run_dir, text_of(staging), kStageFile),
                               Links::kRefused, kStageMost);
  return text ? decode_stage_word(*text) : std::nullopt;
}

std::vector<StagingSample> HookRunner::staging(const std::vector<WorkId>& works) const {
  std::vector<StagingSample> out;
  for (const WorkId& work : works) {
    const StageWord word = staging_word(work).value_or(StageWord{});
    out.push_back({work.job, work.attempt, step_of(work)->step == kStageOutStep, word.bytes_done, word.bytes_total,
                   word.files_done, word.files_total});
  }
  return out;
}

// What was set up last is taken down first.
Result<void> HookRunner::complete(ShimStart& start) const {
  if (is_staging(start.key))
    return {};  // a program of ours
  const bool prolog = step_of(start.key)->step == kPrologStep;
  const AtFailure at_failure = prolog ? AtFailure::kStop : AtFailure::kGoOn;
  auto programs = TRY(find_hook_programs(prolog ? settings_.hooks.prolog : settings_.hooks.epilog, at_failure));
  if (!prolog)
    std::reverse(programs.begin(), programs.end());
  ProcessSpec& process = start.launch.process;
  process.uid = ::geteuid();
  process.gid = ::getegid();
  process.argv = words_to_run(programs, at_failure);
  process.std_out = process.std_err = output_of(start.key);
  return {};
}

void HookRunner::add_task_programs(ProcessSpec& process) const {
  if (!settings_.hooks.task_prolog.empty())
    process.task_prologs.insert(process.task_prologs.begin(), settings_.hooks.task_prolog);
  if (!settings_.hooks.task_epilog.empty())
    process.task_epilogs.push_back(settings_.hooks.task_epilog);
}

void HookRunner::hear_out(ShimEvent& event) const {
  if (event.what != ShimEvent::What::kEnded)
    return;
  if (is_staging(event.key)) {
    if (const auto word = staging_word(event.key); word && failed(event))
      event.why = word->failure;
    return;
  }
  const std::string path = output_of(event.key);
  HookOutput output = read_hook_output(end_of_file(path));
  ::unlink(path.c_str());
  if (failed(event) && !output.program.empty())
    event.why = output.program + (output.verdict.empty() ? "" : ": " + output.verdict) +
                (output.said.empty() ? "" : ": " + output.said);
  std::vector<std::string>& lines = output.lines;
  if (lines.size() > kLinesMax)
    lines.erase(lines.begin(), lines.end() - kLinesMax);
  for (const std::string& line : lines)
    log_line(failed(event) ? LogLevel::kWarning : LogLevel::kInfo, format("{}: {}", text_of(event.key), line));
}

}  // namespace lockstep
