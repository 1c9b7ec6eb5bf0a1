// Options of the commands.
#include "simulate/command.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/text.h"

namespace lockstep::sim {

Result<Options> Options::parse(std::span<char*> words, std::initializer_list<std::string_view> with_value,
                               std::initializer_list<std::string_view> flags) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (std::find(flags.begin(), flags.end(), word) != flags.end()) {
      options.values_[std::string(word)];
      continue;
    }
    if (std::find(with_value.begin(), with_value.end(), word) == with_value.end())
      return invalid(format("unknown option {}", word), std::string(word));
    if (i + 1 == words.size())
      return invalid(format("{} needs a value", word), std::string(word));
    options.values_[std::string(word)] = words[++i];
  }
  return options;
}

Result<std::string> Options::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end())
    return invalid(format("{} is missing", name), std::string(name));
  return found->second;
}

std::string Options::text_or(std::string_view name, std::string_view fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(fallback) : found->second;
}

Result<std::uint64_t> Options::count_or(std::string_view name, std::uint64_t fallback, std::uint64_t min,
                                        std::uint64_t max) const {
  if (!has(name))
    return fallback;
  const std::string value = TRY(text(name));
  const auto count = parse_uint(value);
  if (!count || *count < min || *count > max)
    return invalid(format("{} takes a number from {} to {}, not {}", name, min, max, value), std::string(name));
  return *count;
}

Result<SeedRange> Options::seeds_or(std::string_view name, SeedRange fallback) const {
  if (!has(name))
    return fallback;
  const std::string value = TRY(text(name));
  const std::size_t dash = value.find('-');
  const auto from = parse_uint(std::string_view(value).substr(0, dash));
  const auto to = dash == std::string::npos ? from : parse_uint(std::string_view(value).substr(dash + 1));
  if (!from || !to || *from > *to)
    return invalid(format("{} takes A-B, not {}", name, value), std::string(name));
  return SeedRange{*from, *to};
}

int usage_error(const SimCommand& command, const Error& error) {
  std::fprintf(stderr, "lockstep-sim %s: %s\n%s", command.name, error.message.c_str(), command.usage);
  return 2;
}

double wall_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace lockstep::sim
