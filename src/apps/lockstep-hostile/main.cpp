// lockstep-hostile: drives a whole controller with hostile sequences from several identities, seed after seed, each in
// a process of its own. Anything but a clean refusal is a finding: a CHECK, a request without an answer, a secret in
// the wrong hands, state that cannot be opened again.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "campaign.h"

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

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t from = 1, to = 20, seconds_max = 0;
  CampaignSettings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--tell") {
      settings.tell = true;
      continue;
    }
    const auto dash = value.find('-');
    const auto number = parse_uint(value.substr(0, dash));
    if (!number || (word != "--seeds" && word != "--steps" && word != "--seconds")) {
      std::fputs(kUsage, word == "--help" ? stdout : stderr);
      return word == "--help" ? 0 : 2;
    }
    ++i;
    if (word == "--seeds") {
      from = *number;
      to = dash == std::string_view::npos ? from : parse_uint(value.substr(dash + 1)).value_or(from);
    } else if (word == "--steps") {
      settings.steps = *number;
    } else {
      seconds_max = *number;
    }
  }
  const std::time_t begin = std::time(nullptr);
  std::uint64_t passed = 0, failed = 0;
  const auto more = [&] {
    return seconds_max ? static_cast<std::uint64_t>(std::time(nullptr) - begin) < seconds_max : settings.seed <= to;
  };
  for (settings.seed = from; more(); ++settings.seed) ++(run_apart(settings) ? passed : failed);
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(passed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}
