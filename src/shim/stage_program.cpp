#include "shim/stage_program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/characters.h"
#include "base/text.h"
#include "shim/told_lines.h"
#include "shim/tree_copy.h"

namespace lockstep {
namespace {

constexpr unsigned kPausesBeforeAgain_s[] = {1, 2, 5};
constexpr std::int64_t kTellEvery_ms = 500, kSayEvery_ms = 10'000;
constexpr std::size_t kWhyMost = ToldLines::kLineMost - 64;

std::int64_t now_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

class Staging {
 public:
  explicit Staging(bool out)
      : out_(out),
        name_(out ? "stage-out" : "stage-in"),
        copy_(out ? CopyFault::kPassedBy : CopyFault::kEnds, [this](const CopyCount&) { progress(); }),
        begun_ms_(now_ms()) {}

  // A job begins with everything or not at all. Behind its end everything is copied that can be: the rest goes.
  int run(const std::vector<CopyTask>& tasks) {
    for (const CopyTask& task : tasks)
      if (const auto counted = patiently([&](bool) { return measure(task); }); !counted && !out_)
        return fail(counted.error().message);
    say(format("{} to copy", amount(total_)));
    for (const CopyTask& task : tasks)
      if (const auto copied = patiently([&](bool last_try) { return copy_.copy(task, last_try); }); !copied)
        return fail(copied.error().message);
    if (const std::int64_t left = copy_.left_behind(); left > 0) {
      tell();
      say(format("{} copied, {} left behind", amount(copy_.done()), left));
      return fail(left == 1 ? copy_.first_left() : format("{} (and {} more)", copy_.first_left(), left - 1));
    }
    if (copy_.passed_over() > 0)
      say(format("{} devices, pipes or sockets were passed over", copy_.passed_over()));
    tell();
    say(format("done: {} in {} s", amount(copy_.done()), (now_ms() - begun_ms_ + 500) / 1000));
    return 0;
  }
  int fail(const std::string& why) {
    StageWord word;
    word.failure = without_control_characters(why, kWhyMost);
    send(word);
    ::fprintf(stderr, "lockstep: error: %s: %s\n", name_, word.failure.c_str());
    return 1;
  }

 private:
  Result<void> measure(const CopyTask& task) {
    const CopyCount found = TRY(copy_.measure(task));
    total_.bytes += found.bytes;
    total_.files += found.files;
    return {};
  }

  template <class Do>
  Result<void> patiently(const Do& act) {
    for (const unsigned pause_s : kPausesBeforeAgain_s) {
      auto result = act(false);
      if (result || result.error().code != Errc::kUnavailable)
        return result;
      say(format("{}; tried again in {} s", without_control_characters(result.error().message, kWhyMost), pause_s));
      ::sleep(pause_s);
    }
    return act(true);
  }

  static std::string amount(const CopyCount& count) {
    return format("{} in {} file{}", bytes_text(count.bytes), count.files, count.files == 1 ? "" : "s");
  }
  void say(const std::string& text) const {
    ::printf("lockstep: %s: %s\n", name_, text.c_str());
    ::fflush(stdout);
  }
  static void send(const StageWord& word) {
    const std::string line = encode_stage_word(word) + "\n";
    if (::write(kStageTellFd, line.data(), line.size()) < 0)
      return;  // nobody listens: the copying matters
  }
  void tell() const { send({copy_.done().bytes, total_.bytes, copy_.done().files, total_.files, {}}); }
  void progress() {
    const std::int64_t now = now_ms();
    if (now - told_ms_ >= kTellEvery_ms) {
      told_ms_ = now;
      tell();
    }
    if (now - said_ms_ < kSayEvery_ms)
      return;
    said_ms_ = now;
    say(format("{} of {}, {} of {} files", bytes_text(copy_.done().bytes), bytes_text(total_.bytes), copy_.done().files,
               total_.files));
  }

  bool out_;
  const char* name_;
  CopyCount total_;
  TreeCopy copy_;
  std::int64_t begun_ms_, told_ms_ = 0, said_ms_ = begun_ms_;
};

// Directories within each other are open at once.
void raise_descriptor_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0)
    return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

std::optional<std::int64_t> amount_of(const std::string& word) {
  const auto number = parse_int(word);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::string encode_stage_word(const StageWord& word) {
  if (!word.failure.empty())
    return "failed " + word.failure;
  return format("progress {} {} {} {}", word.bytes_done, word.bytes_total, word.files_done, word.files_total);
}

std::optional<StageWord> decode_stage_word(std::string_view line) {
  StageWord word;
  if (line.starts_with("failed ")) {
    word.failure = without_control_characters(trim(line.substr(7)), ToldLines::kLineMost);
    return word.failure.empty() ? std::nullopt : std::optional(word);
  }
  const auto words = split_words(line);
  if (words.size() != 5 || words[0] != "progress")
    return std::nullopt;
  std::int64_t* const fields[] = {&word.bytes_done, &word.bytes_total, &word.files_done, &word.files_total};
  for (std::size_t i = 0; i < std::size(fields); ++i) {
    const auto number = amount_of(words[i + 1]);
    if (!number)
      return std::nullopt;
    *fields[i] = *number;
  }
  return word;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  double amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  return unit == 0 ? format("{} B", bytes) : format("{:.1f} {}", amount, kUnits[unit]);
}

int run_staging(int count, char** words) {
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_DUMPABLE, 0);  // another job of the user's could make it run for him, in the place of this one
  raise_descriptor_limit();
  const bool out = count > 0 && std::string_view(words[0]) == "out";
  Staging staging(out);
  const char* scratch = ::getenv("LOCKSTEP_SCRATCH");
  if (!scratch || scratch[0] != '/')
    return staging.fail("the job has no scratch on this node");
  std::vector<CopyTask> tasks;
  for (int i = 1; i + 1 < count; i += 2) {
    CopyTask task{.from = words[i], .to = words[i + 1], .from_below = {}, .to_below = {}};
    if (!stays_below(out ? task.from : task.to))
      return staging.fail(format("{} does not lie in the job's scratch", out ? task.from : task.to));
    (out ? task.from_below : task.to_below) = scratch;
    std::string& outside = out ? task.to : task.from;
    if (!outside.starts_with('/')) {
      char here[4096];
      if (!::getcwd(here, sizeof here))
        return staging.fail("the working directory is not there");
      outside = format("{}/{}", here, outside);
    }
    tasks.push_back(std::move(task));
  }
  return staging.run(tasks);
}

}  // namespace lockstep
