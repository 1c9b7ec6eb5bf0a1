#include "hunt.h"

#include <cstdio>

#include "base/mutant.h"
#include "chaos.h"

namespace lockstep::sim {

namespace {

struct Named {
  Mutant mutant;
  const char* name;
};

constexpr Named kMutants[] = {
    {Mutant::kEarlyAck, "early-ack"},
    {Mutant::kSkipFence, "skip-fence"},
    {Mutant::kStaleAttempt, "stale-attempt"},
    {Mutant::kStaleBoot, "stale-boot"},
    {Mutant::kDeviceLeak, "device-leak"},
    {Mutant::kPartialGang, "partial-gang"},
    {Mutant::kDoubleStart, "double-start"},
    {Mutant::kNoRecheck, "no-recheck"},
    {Mutant::kReuseJobId, "reuse-job-id"},
    {Mutant::kDropReport, "drop-report"},
    {Mutant::kForgetDependents, "forget-dependents"},
    {Mutant::kIgnoreLimit, "ignore-limit"},
    {Mutant::kLostCancel, "lost-cancel"},
    {Mutant::kFenceFromAck, "fence-from-ack"},
    {Mutant::kTrimBehindReader, "trim-behind-reader"},
    {Mutant::kPublishUncommitted, "publish-uncommitted"},
    {Mutant::kNoRequeue, "no-requeue"},
    {Mutant::kArrayOverThrottle, "array-over-throttle"},
    {Mutant::kDoubleFree, "double-free"},
    {Mutant::kSnapshotStale, "snapshot-stale"},
    {Mutant::kForgetTopology, "forget-topology"},
    {Mutant::kPauseUnasked, "pause-unasked"},
    {Mutant::kStalePause, "stale-pause"},
};
static_assert(std::size(kMutants) + 1 == static_cast<std::size_t>(Mutant::kCount));

void activate(Mutant mutant) {
#ifdef LOCKSTEP_MUTANTS_ON
  active_mutant = mutant;
#else
  (void)mutant;
#endif
}

bool have_mutants() {
#ifdef LOCKSTEP_MUTANTS_ON
  return true;
#else
  std::fputs("lockstep-sim: this binary has no planted bugs; build and use lockstep-sim-mutants\n", stderr);
  return false;
#endif
}

}  // namespace

bool choose_mutant(const std::string& name) {
  if (!have_mutants())
    return false;
  for (const Named& named : kMutants)
    if (name == named.name) {
      activate(named.mutant);
      return true;
    }
  std::fprintf(stderr, "lockstep-sim: no mutant %s; there are:\n", name.c_str());
  for (const Named& named : kMutants) std::fprintf(stderr, "  %s\n", named.name);
  return false;
}

int hunt(std::uint64_t from, std::uint64_t to, std::uint64_t commands, const std::string& only) {
  if (!have_mutants() || (!only.empty() && !choose_mutant(only)))
    return 2;
  int caught = 0, missed = 0;
  std::printf("%-20s %6s  %s\n", "mutant", "seed", "what the checkers said");
  for (const Named& named : kMutants) {
    if (!only.empty() && only != named.name)
      continue;
    activate(named.mutant);
    std::uint64_t seed = from;
    std::string words;
    for (; seed <= to && words.empty(); ++seed) {
      std::fprintf(stderr, "\r%-20s %6llu ", named.name, static_cast<unsigned long long>(seed));
      // Every other seed is restless: races on nodes that come back want jobs there at once.
      const ChaosReport report =
          run_chaos_apart({.seed = seed, .commands = commands, .restless = seed % 2 == 0}, false);
      if (!report.passed && !report.out_of_time)
        words = report.failure;
    }
    std::fputs("\r", stderr);
    ++(words.empty() ? missed : caught);
    std::printf("%-20s %6s  %s\n", named.name, words.empty() ? "-" : format("{}", seed - 1).c_str(),
                words.empty() ? "not caught" : words.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", caught, missed);
  return missed == 0 ? 0 : 1;
}

}  // namespace lockstep::sim
