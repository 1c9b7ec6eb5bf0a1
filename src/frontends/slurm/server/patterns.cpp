// Expands file name patterns letter by letter; an unknown letter is left as written.
#include "frontends/slurm/server/patterns.h"

#include <algorithm>

#include "base/text.h"
#include "model/job.h"

namespace lockstep::slurm {

namespace {

constexpr std::uint32_t kWidthMax = 10;         // wider zero padding is cut to this, as in Slurm
constexpr std::uint32_t kNoIndex = 4294967294;  // what %a gives outside an array

bool digit(char c) { return c >= '0' && c <= '9'; }

std::string padded(std::uint64_t value, std::uint32_t width) { return format("{:0{}}", value, width); }

std::string rank_text(const PatternFacts& facts, std::uint32_t width) {
  if (!facts.step)
    return padded(0, width);
  return width > 1 ? format("\x01{}t", width) : std::string("\x01t");
}

std::string step_text(const PatternFacts& facts, std::uint32_t width) {
  return facts.step ? padded(static_cast<std::uint64_t>(*facts.step), width) : "batch";
}

std::string job_and_step_text(const PatternFacts& facts, std::uint32_t width) {
  return padded(facts.job.value, width) + (facts.step ? format(".{}", *facts.step) : std::string());
}

// What %<width><letter> stands for; nothing: the letter means nothing.
std::optional<std::string> field_text(char letter, std::uint32_t width, const PatternFacts& facts) {
  const bool element = static_cast<bool>(facts.array_job);
  const std::uint32_t index = element ? facts.array_index : kNoIndex;
  switch (letter) {
    case 'A': return padded(element ? facts.array_job.value : facts.job.value, width);
    case 'a': return padded(index, width);
    case 'b': return padded(index % 10, width);
    case 'J': return job_and_step_text(facts, width);
    case 'j': return padded(facts.job.value, width);
    case 'N': return facts.node;
    case 'n': return padded(facts.node_index, width);
    case 's': return step_text(facts, width);
    case 't': return rank_text(facts, width);
    case 'u': return facts.user;
    case 'x': return facts.job_name;
    default: return std::nullopt;
  }
}

}  // namespace

std::string expand_pattern(std::string_view pattern, const PatternFacts& facts) {
  std::string out;
  if (pattern.find('\\') != std::string_view::npos) {
    std::copy_if(pattern.begin(), pattern.end(), std::back_inserter(out), [](char c) { return c != '\\'; });
    return out;
  }
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    // The placeholder mark cannot come from a user: a pattern holds no control characters of ours.
    if (pattern[i] == '\x01')
      continue;
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    if (pattern[i + 1] == '%') {
      out += '%';
      ++i;
      continue;
    }
    std::size_t at = i + 1;
    std::uint32_t width = 0;
    for (; at < pattern.size() && digit(pattern[at]); ++at)
      width = std::min(width * 10 + static_cast<std::uint32_t>(pattern[at] - '0'), kWidthMax);
    const auto field = at < pattern.size() ? field_text(pattern[at], width, facts) : std::nullopt;
    out += field.value_or("%");
    if (field)
      i = at;
  }
  return out;
}

std::string expand_path(std::string_view pattern, const PatternFacts& facts, std::string_view work_dir) {
  if (pattern.empty() || pattern == "all")
    return {};
  if (pattern == "none" || pattern == "/dev/null")
    return "/dev/null";
  std::string path = expand_pattern(pattern, facts);
  if (path.empty() || path.front() == '/' || work_dir.empty())
    return path;
  return format("{}{}{}", work_dir, work_dir.ends_with('/') ? "" : "/", path);
}

std::string_view default_output_pattern(const Job& job) {
  return job.array_job || job.array ? "slurm-%A_%a.out" : "slurm-%j.out";
}

}  // namespace lockstep::slurm
