// lockstep-sim: the real controller and agents in a simulated world.
//   lockstep-sim chaos --seeds A-B [--commands N] [--json] [--mutant NAME]
//   lockstep-sim hunt --seeds A-B [--mutant NAME]      (lockstep-sim-mutants only)
#include <cstdio>
#include <cstring>
#include <ctime>

#include "chaos.h"
#include "hunt.h"

namespace {

using namespace lockstep;
using namespace lockstep::sim;

constexpr const char* kUsage =
    "lockstep-sim chaos --seeds A-B [--commands N] [--json] [--mutant NAME]\n"
    "lockstep-sim chaos --list FILE                 (seeds, one a line; # begins a remark)\n"
    "    runs every seed; a failing one prints what the checkers said and the last events\n"
    "lockstep-sim hunt --seeds A-B [--mutant NAME]\n"
    "    for every planted bug: the first seed that catches it (needs lockstep-sim-mutants)\n";

struct Options {
  std::uint64_t from = 1, to = 200, commands = 2000;
  bool json = false;
  std::string mutant;
  std::vector<std::uint64_t> seeds;  // of a list, instead of from-to
};

bool read_list(const char* path, std::vector<std::uint64_t>& seeds) {
  std::FILE* file = std::fopen(path, "r");
  if (!file) {
    std::fprintf(stderr, "lockstep-sim: cannot open %s\n", path);
    return false;
  }
  char line[512];
  bool good = true;
  while (good && std::fgets(line, sizeof line, file)) {
    const std::string_view text = line;
    const std::string_view word = trim(text.substr(0, text.find('#')));
    if (word.empty())
      continue;
    const auto seed = parse_uint(word);
    good = seed.has_value();
    if (good)
      seeds.push_back(*seed);
    else
      std::fprintf(stderr, "lockstep-sim: %s: not a seed: %s", path, line);
  }
  std::fclose(file);
  return good;
}

// False: wrong usage, said so.
bool parse(int argc, char** argv, Options& options) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 >= argc) {
      std::fprintf(stderr, "lockstep-sim: %s needs a value\n", argv[i]);
      return false;
    }
    const std::string_view value = argv[++i];
    if (word == "--seeds") {
      const std::size_t dash = value.find('-');
      const auto from = parse_uint(value.substr(0, dash));
      const auto to = dash == std::string_view::npos ? from : parse_uint(value.substr(dash + 1));
      if (!from || !to || *from > *to) {
        std::fprintf(stderr, "lockstep-sim: --seeds takes A-B, not %s\n", argv[i]);
        return false;
      }
      options.from = *from;
      options.to = *to;
    } else if (word == "--list") {
      if (!read_list(argv[i], options.seeds))
        return false;
    } else if (word == "--commands") {
      const auto count = parse_uint(value);
      if (!count || *count == 0) {
        std::fprintf(stderr, "lockstep-sim: --commands takes a number, not %s\n", argv[i]);
        return false;
      }
      options.commands = *count;
    } else if (word == "--mutant") {
      options.mutant = value;
    } else {
      std::fprintf(stderr, "lockstep-sim: unknown option %s\n%s", argv[i - 1], kUsage);
      return false;
    }
  }
  return true;
}

double clock_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

int chaos(const Options& options) {
  std::uint64_t passed = 0, failed = 0;
  const double begin = clock_seconds();
  double told = begin;
  std::vector<std::uint64_t> seeds = options.seeds;
  if (seeds.empty())
    for (std::uint64_t seed = options.from; seed <= options.to; ++seed) seeds.push_back(seed);
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
          "\"requeues\":%llu,\"simulated_s\":%lld}\n",
          static_cast<unsigned long long>(seed), report.passed ? "true" : "false",
          static_cast<unsigned long long>(report.commands), static_cast<unsigned long long>(report.jobs),
          static_cast<unsigned long long>(report.batches), static_cast<unsigned long long>(report.starts),
          static_cast<unsigned long long>(report.requeues), static_cast<long long>(report.simulated.seconds()));
    const double now = clock_seconds();
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

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "--help" || command == "-h") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if ((command != "chaos" && command != "hunt") || !parse(argc, argv, options)) {
    if (command != "chaos" && command != "hunt")
      std::fputs(kUsage, stderr);
    return 2;
  }
  if (command == "hunt")
    return hunt(options.from, options.to, options.commands, options.mutant);
  if (!options.mutant.empty() && !choose_mutant(options.mutant))
    return 2;
  return chaos(options);
}
