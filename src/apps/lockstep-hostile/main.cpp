// lockstep-hostile: drives a whole controller with hostile sequences from several identities, seed after seed, each in
// a process of its own. Anything but a clean refusal is a finding: a CHECK, a request without an answer, a secret in
// the wrong hands, state that cannot be opened again.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <span>
#include <string_view>

#include "base/text.h"
#include "hostile/campaign.h"

namespace {

constexpr const char* kUsage =
    "lockstep-hostile [--seeds A-B] [--steps N] [--seconds S] [--tell]\n"
    "    runs every seed (default 1-20, of 1500 steps each), or seeds from A on until S seconds have passed;\n"
    "    --tell prints each request before it is sent\n";

using namespace lockstep;
using namespace lockstep::hostile;

// True when the campaign ended as it should. Its words go to stdout.
bool run_apart(const CampaignSettings& settings) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const CampaignReport report = run_campaign(settings);
    std::printf("seed %llu: %llu requests, %llu refused, %llu upgrades%s%s\n",
                static_cast<unsigned long long>(settings.seed), static_cast<unsigned long long>(report.requests),
                static_cast<unsigned long long>(report.refused), static_cast<unsigned long long>(report.upgrades),
                report.failure.empty() ? "" : ": ", report.failure.c_str());
    std::fflush(stdout);
    _exit(report.failure.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    std::printf("seed %llu: the controller died by signal %d\n", static_cast<unsigned long long>(settings.seed),
                WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct Run {
  std::uint64_t from = 1, to = 20;
  std::uint64_t seconds_max = 0;  // 0: the seeds say when it is over
};

// False: a word is not understood.
bool read_words(std::span<char*> words, Run& run, CampaignSettings& settings) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--tell") {
      settings.tell = true;
      continue;
    }
    const std::string_view value = i + 1 < words.size() ? words[++i] : "";
    const auto dash = value.find('-');
    const auto number = parse_uint(value.substr(0, dash));
    if (!number)
      return false;
    if (word == "--seeds") {
      run.from = *number;
      run.to = dash == std::string_view::npos ? run.from : parse_uint(value.substr(dash + 1)).value_or(run.from);
    } else if (word == "--steps") {
      settings.steps = *number;
    } else if (word == "--seconds") {
      run.seconds_max = *number;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CampaignSettings settings;
  Run run;
  if (!read_words({argv + 1, static_cast<std::size_t>(argc - 1)}, run, settings)) {
    const bool asked = argc > 1 && std::string_view(argv[argc - 1]) == "--help";
    std::fputs(kUsage, asked ? stdout : stderr);
    return asked ? 0 : 2;
  }
  const std::time_t begin = std::time(nullptr);
  std::uint64_t passed = 0, failed = 0;
  const auto more = [&] {
    return run.seconds_max ? static_cast<std::uint64_t>(std::time(nullptr) - begin) < run.seconds_max
                           : settings.seed <= run.to;
  };
  for (settings.seed = run.from; more(); ++settings.seed) ++(run_apart(settings) ? passed : failed);
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(passed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}
