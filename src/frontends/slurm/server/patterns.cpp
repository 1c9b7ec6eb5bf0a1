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

// Appends what %<width><letter> stands for; false if the letter means nothing.
bool append_field(std::string& out, char letter, std::uint32_t width, const PatternFacts& facts) {
  const bool element = static_cast<bool>(facts.array_job);
  switch (letter) {
    case 'A': out += padded(element ? facts.array_job.value : facts.job.value, width); return true;
    case 'a': out += padded(element ? facts.array_index : kNoIndex, width); return true;
    case 'b': out += padded((element ? facts.array_index : kNoIndex) % 10, width); return true;
    case 'J':
      out += padded(facts.job.value, width);
      if (facts.step)
        out += format(".{}", *facts.step);
      return true;
    case 'j': out += padded(facts.job.value, width); return true;
    case 'N': out += facts.node; return true;
    case 'n': out += padded(facts.node_index, width); return true;
    case 's':
      if (facts.step)
        out += padded(static_cast<std::uint64_t>(*facts.step), width);
      else
        out += "batch";
      return true;
    case 't': out += rank_text(facts, width); return true;
    case 'u': out += facts.user; return true;
    case 'x': out += facts.job_name; return true;
    default: return false;
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
    if (at < pattern.size() && append_field(out, pattern[at], width, facts))
      i = at;
    else
      out += '%';
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
