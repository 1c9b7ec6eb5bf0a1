// lockstep-sim chaos and hunt: the real controller and agents in a simulated world, seed after seed.
#include <cstdio>
#include <memory>

#include "base/text.h"
#include "simulate/chaos/chaos.h"
#include "simulate/chaos/hunt.h"
#include "simulate/command.h"

namespace lockstep::sim {
namespace {

struct ChaosRun {
  SeedRange range;
  std::uint64_t commands = 2000;
  bool json = false;
  std::string mutant;
  std::uint64_t part = 1, parts = 1;
  std::vector<std::uint64_t> seeds;  // of a list, instead of the range
};

Result<std::vector<std::uint64_t>> read_list(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "r"), &std::fclose);
  if (!file)
    return not_found(format("cannot open {}", path));
  std::vector<std::uint64_t> seeds;
  char line[512];
  while (std::fgets(line, sizeof line, file.get())) {
    const std::string_view text = line;
    const std::string_view word = trim(text.substr(0, text.find('#')));
    if (word.empty())
      continue;
    const auto seed = parse_uint(word);
    if (!seed)
      return invalid(format("{}: not a seed: {}", path, trim(text)));
    seeds.push_back(*seed);
  }
  return seeds;
}

Result<ChaosRun> read_options(std::span<char*> words) {
  const Options options =
      TRY(Options::parse(words, {"--seeds", "--list", "--commands", "--mutant", "--part"}, {"--json"}));
  ChaosRun run;
  run.range = TRY(options.seeds_or("--seeds", {1, 200}));
  run.commands = TRY(options.count_or("--commands", run.commands));
  run.json = options.has("--json");
  if (options.has("--part")) {
    const std::string value = TRY(options.text("--part"));
    const std::size_t slash = value.find('/');
    const auto part = parse_uint(std::string_view(value).substr(0, slash));
    const auto parts =
        slash == std::string::npos ? std::nullopt : parse_uint(std::string_view(value).substr(slash + 1));
    if (!part || !parts || *part < 1 || *part > *parts)
      return invalid(format("--part takes K/N with K from 1 to N, not {}", value), "--part");
    run.part = *part;
    run.parts = *parts;
  }
  run.mutant = options.text_or("--mutant", "");
  if (options.has("--list"))
    run.seeds = TRY(read_list(TRY(options.text("--list"))));
  return run;
}

// Runs every seed apart and says what failed; the exit code.
int chaos(const ChaosRun& options) {
  std::uint64_t passed = 0, failed = 0;
  const double begin = wall_seconds();
  double told = begin;
  std::vector<std::uint64_t> seeds = options.seeds;
  if (seeds.empty())
    for (std::uint64_t seed = options.range.from; seed <= options.range.to; ++seed) seeds.push_back(seed);
  std::size_t done = 0;
  for (const std::uint64_t seed : seeds) {
    ++done;
    const ChaosReport report = run_chaos_apart({.seed = seed, .commands = options.commands}, true);
    ++(report.passed ? passed : failed);
    if (!report.passed) {
      std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(seed), report.failure.c_str());
      for (const std::string& note : report.notes)
        if (!note.empty())
          std::printf("    %s\n", note.c_str());
      std::fflush(stdout);
    }
    if (options.json)
      std::printf(
          "{\"seed\":%llu,\"passed\":%s,\"commands\":%llu,\"jobs\":%llu,\"batches\":%llu,\"starts\":%llu,"
          "\"requeues\":%llu,\"growths\":%llu,\"shrinks\":%llu,\"reserved\":%llu,\"topologies\":%llu,\"bound\":%llu,"
          "\"closings\":%llu,\"health_runs\":%llu,\"unhealthy\":%llu,\"simulated_s\":%lld}\n",
          static_cast<unsigned long long>(seed), report.passed ? "true" : "false",
          static_cast<unsigned long long>(report.commands), static_cast<unsigned long long>(report.jobs),
          static_cast<unsigned long long>(report.batches), static_cast<unsigned long long>(report.starts),
          static_cast<unsigned long long>(report.requeues), static_cast<unsigned long long>(report.growths),
          static_cast<unsigned long long>(report.shrinks), static_cast<unsigned long long>(report.reserved),
          static_cast<unsigned long long>(report.topologies), static_cast<unsigned long long>(report.bound),
          static_cast<unsigned long long>(report.closings), static_cast<unsigned long long>(report.health_runs),
          static_cast<unsigned long long>(report.unhealthy), static_cast<long long>(report.simulated.seconds()));
    const double now = wall_seconds();
    if (now - told >= 2 || done == seeds.size()) {
      told = now;
      std::fprintf(stderr, "%llu of %llu seeds, %llu failed, %.2f s a seed\n", static_cast<unsigned long long>(done),
                   static_cast<unsigned long long>(seeds.size()), static_cast<unsigned long long>(failed),
                   (now - begin) / static_cast<double>(done));
    }
  }
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(passed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

int run_chaos_command(std::span<char*> words) {
  const Result<ChaosRun> run = read_options(words);
  if (!run)
    return usage_error(kChaosCommand, run.error());
  if (!run->mutant.empty() && !choose_mutant(run->mutant))
    return 2;
  return chaos(*run);
}

int run_hunt_command(std::span<char*> words) {
  const Result<ChaosRun> run = read_options(words);
  if (!run)
    return usage_error(kHuntCommand, run.error());
  return hunt({run->range.from, run->range.to, run->commands, run->mutant, run->part - 1, run->parts});
}

}  // namespace

const SimCommand kChaosCommand{"chaos",
                               "lockstep-sim chaos --seeds A-B [--commands N] [--json] [--mutant NAME]\n"
                               "lockstep-sim chaos --list FILE                 (seeds, one a line; # begins a remark)\n"
                               "    runs every seed; a failing one prints what the checkers said and the last events\n",
                               run_chaos_command};

const SimCommand kHuntCommand{
    "hunt",
    "lockstep-sim hunt --seeds A-B [--mutant NAME] [--part K/N]\n"
    "    for every planted bug, or every N-th: a seed that catches it; the one that did before is tried first\n",
    run_hunt_command};

}  // namespace lockstep::sim
