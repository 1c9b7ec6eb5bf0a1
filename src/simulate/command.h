// The commands of lockstep-sim: one file each, listed in main.cpp. Beside them, the little they share about their
// options.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::sim {

struct SimCommand {
  const char* name;
  const char* usage;             // complete lines, each ended
  int (*run)(std::span<char*>);  // the words after the name -> exit code; 2 is wrong usage
};

extern const SimCommand kChaosCommand, kGpuCommand, kHuntCommand, kKubeCommand, kKubeHuntCommand, kPackCommand,
    kQueueCommand, kReplayCommand, kScaleCommand;

struct SeedRange {
  std::uint64_t from = 1, to = 1;
};

// "--name VALUE" and "--flag" words. Errors (kInvalid): an unknown option, a missing or malformed value.
class Options {
 public:
  static Result<Options> parse(std::span<char*> words, std::initializer_list<std::string_view> with_value,
                               std::initializer_list<std::string_view> flags);

  bool has(std::string_view name) const { return values_.contains(name); }
  Result<std::string> text(std::string_view name) const;  // kInvalid when it was not given
  std::string text_or(std::string_view name, std::string_view fallback) const;
  Result<std::uint64_t> count_or(std::string_view name, std::uint64_t fallback, std::uint64_t min = 1,
                                 std::uint64_t max = UINT64_MAX) const;
  Result<SeedRange> seeds_or(std::string_view name, SeedRange fallback) const;  // "A-B" or "A", A <= B

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

int usage_error(const SimCommand& command, const Error& error);  // says both on stderr; 2
double wall_seconds();                                           // of a clock that only goes forward, for progress

}  // namespace lockstep::sim
