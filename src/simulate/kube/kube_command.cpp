// lockstep-sim kube and kube-hunt: Kubernetes' API, its controllers and clients in a simulated world, seed after seed;
// and every planted bug of it, which some seed must catch.
#include <cstdio>

#include "base/mutant.h"
#include "base/text.h"
#include "simulate/command.h"
#include "simulate/kube/kube_run.h"

namespace lockstep::sim {
namespace {

struct Named {
  Mutant mutant;
  const char* name;
  std::uint64_t seed;  // that caught it when last looked for: tried first
};

constexpr Named kMutants[] = {
    {Mutant::kWatchEventLost, "watch-event-lost", 1},
    {Mutant::kWatchEventTwice, "watch-event-twice", 1},
    {Mutant::kListOlderThanTold, "list-older-than-told", 1},
    {Mutant::kPageOfNow, "page-of-now", 8},
    {Mutant::kStatusAhead, "status-ahead", 1},
    {Mutant::kOrphanLeft, "orphan-left", 1},
    {Mutant::kPodOnTwoNodes, "pod-on-two-nodes", 2},
    {Mutant::kQuotaOverrun, "quota-overrun", 6},
    {Mutant::kUpdateLost, "update-lost", 4},
    {Mutant::kOrdinalsAtOnce, "ordinals-at-once", 3},
};
// Four are missing, since no seed has been found for them yet: kWatchFarewellLost, kStaleController, kFinalizerIgnored,
// kEvictedOverBudget.
static_assert(std::size(kMutants) + 5 ==
              static_cast<std::size_t>(Mutant::kKubeEnd) - static_cast<std::size_t>(Mutant::kSimulatedEnd));

bool choose(const std::string& name) {
  for (const Named& named : kMutants)
    if (name == named.name) {
      planted = named.mutant;
      return true;
    }
  std::fprintf(stderr, "lockstep-sim: no mutant %s; there are:\n", name.c_str());
  for (const Named& named : kMutants) std::fprintf(stderr, "  %s\n", named.name);
  return false;
}

struct Run {
  SeedRange range;
  std::uint64_t commands = 150;
  std::string mutant;
  std::uint64_t part = 1, parts = 1;  // of all mutants, every `parts`-th
};

Result<Run> read_options(std::span<char*> words, SeedRange otherwise) {
  const Options options = TRY(Options::parse(words, {"--seeds", "--commands", "--mutant", "--part"}, {}));
  Run run;
  run.range = TRY(options.seeds_or("--seeds", otherwise));
  run.commands = TRY(options.count_or("--commands", run.commands));
  run.mutant = options.text_or("--mutant", "");
  const std::string part = options.text_or("--part", "1/1");
  const std::size_t slash = part.find('/');
  const auto number = parse_uint(std::string_view(part).substr(0, slash));
  const auto parts = slash == part.npos ? std::nullopt : parse_uint(std::string_view(part).substr(slash + 1));
  if (!number || !parts || *number < 1 || *number > *parts)
    return invalid(format("--part takes K/N with K from 1 to N, not {}", part), "--part");
  run.part = *number;
  run.parts = *parts;
  return run;
}

int run_seeds(std::span<char*> words) {
  const Result<Run> run = read_options(words, {1, 50});
  if (!run)
    return usage_error(kKubeCommand, run.error());
  if (!run->mutant.empty() && !choose(run->mutant))
    return 2;
  std::uint64_t passed = 0, failed = 0;
  for (std::uint64_t seed = run->range.from; seed <= run->range.to; ++seed) {
    const double begin = wall_seconds();
    const KubeReport report = run_kube_apart({.seed = seed, .commands = run->commands}, true);
    ++(report.passed ? passed : failed);
    if (!report.passed) {
      std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(seed), report.failure.c_str());
      for (const std::string& note : report.notes)
        if (!note.empty())
          std::printf("    %s\n", note.c_str());
    }
    std::printf("seed %llu: %llu commands, %llu done, %llu pods, %llu events, %llu batches, %llu s, in %.1f s\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(report.commands),
                static_cast<unsigned long long>(report.answered), static_cast<unsigned long long>(report.pods),
                static_cast<unsigned long long>(report.events), static_cast<unsigned long long>(report.batches),
                static_cast<unsigned long long>(report.simulated_s), wall_seconds() - begin);
    std::fflush(stdout);
  }
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(passed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

int run_hunt(std::span<char*> words) {
  const Result<Run> run = read_options(words, {1, 40});
  if (!run)
    return usage_error(kKubeHuntCommand, run.error());
  if (!run->mutant.empty() && !choose(run->mutant))
    return 2;
  int caught = 0, missed = 0;
  std::uint64_t number = 0;
  std::printf("%-20s %6s  %s\n", "mutant", "seed", "what the checkers said");
  for (const Named& named : kMutants) {
    if (number++ % run->parts != run->part - 1 || (!run->mutant.empty() && run->mutant != named.name))
      continue;
    planted = named.mutant;
    const auto words_of = [&](std::uint64_t seed) {
      const KubeReport report = run_kube_apart({.seed = seed, .commands = run->commands}, false);
      return report.passed || report.out_of_time ? std::string() : report.failure;
    };
    std::uint64_t seed = named.seed;
    std::string said = words_of(seed);
    for (std::uint64_t next = run->range.from; next <= run->range.to && said.empty(); ++next)
      said = words_of(seed = next);
    ++(said.empty() ? missed : caught);
    std::printf("%-20s %6s  %s\n", named.name, said.empty() ? "-" : format("{}", seed).c_str(),
                said.empty() ? "not caught" : said.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", caught, missed);
  return missed == 0 ? 0 : 1;
}

}  // namespace

const SimCommand kKubeCommand{
    "kube",
    "lockstep-sim kube --seeds A-B [--commands N] [--mutant NAME]\n"
    "    Kubernetes' API in a simulated world; a failing seed prints what the checkers said\n",
    run_seeds};

const SimCommand kKubeHuntCommand{
    "kube-hunt",
    "lockstep-sim kube-hunt --seeds A-B [--commands N] [--mutant NAME] [--part K/N]\n"
    "    for every planted bug of it, or every N-th: a seed that catches it; the one that did before is tried first\n",
    run_hunt};

}  // namespace lockstep::sim
