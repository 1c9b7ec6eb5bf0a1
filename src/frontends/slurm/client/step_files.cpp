#include "frontends/slurm/client/step_files.h"

#include "base/interval_set.h"
#include "base/text.h"
#include "frontends/slurm/client/script.h"
#include "frontends/slurm/client/values.h"

namespace lockstep::slurm {

StepFile parse_step_file(std::string_view text) {
  const std::string word = lower(text);
  if (word.empty() || word == "all")
    return {};
  if (word == "none")
    return {StepFile::Kind::kNone, 0, {}};
  if (const auto rank = parse_count(word))
    return {StepFile::Kind::kOneRank, *rank, {}};
  StepFile file{StepFile::Kind::kShared, 0, std::string(text)};
  if (text.find('\\') != std::string_view::npos)
    return file;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '%')
      continue;
    ++i;
    while (i + 1 < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    if (text[i] == 't' || text[i] == 'n' || text[i] == 'N')
      file.kind = StepFile::Kind::kPerTask;
  }
  return file;
}

bool names_any(std::string_view pattern, std::string_view letters) {
  if (pattern.find('\\') != std::string_view::npos)
    return false;
  for (std::size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '%')
      continue;
    ++i;
    while (i + 1 < pattern.size() && pattern[i] >= '0' && pattern[i] <= '9') ++i;
    if (letters.find(pattern[i]) != std::string_view::npos)
      return true;
  }
  return false;
}

namespace {

std::string without_backslashes(std::string_view pattern) {
  std::string out(pattern);
  std::erase(out, '\\');
  return out;
}

// What a letter behind % stands for; nothing: it is none of these.
std::optional<std::string> field_text(char letter, std::size_t width, const PatternFacts& facts) {
  const auto padded = [&](std::uint64_t value) { return format("{:0{}}", value, width); };
  switch (letter) {
    case '%': return "%";
    case 'j': return padded(facts.job);
    case 'J': return format("{}.{}", facts.job, facts.step);
    case 's': return padded(static_cast<std::uint64_t>(std::max(0, facts.step)));
    case 'A': return padded(facts.array_job ? facts.array_job : facts.job);
    case 'a': return padded(facts.array_job ? facts.array_index : 4294967294U);
    case 'b': return padded(facts.array_job ? facts.array_index % 10 : 4);
    case 'u': return facts.user;
    case 'x': return facts.job_name;
    default: return std::nullopt;
  }
}

}  // namespace

std::string expand_pattern(std::string_view pattern, const PatternFacts& facts) {
  if (pattern.find('\\') != std::string_view::npos)
    return without_backslashes(pattern);
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const std::size_t start = i++;
    std::size_t width = 0;
    while (i + 1 < pattern.size() && pattern[i] >= '0' && pattern[i] <= '9')
      width = std::min<std::size_t>(10, width * 10 + static_cast<std::size_t>(pattern[i++] - '0'));
    out += field_text(pattern[i], width, facts).value_or(std::string(pattern.substr(start, i - start + 1)));
  }
  return out;
}

namespace {

Error bad_line(unsigned number, std::string_view what) {
  return invalid(format("multi-prog line {}: {}", number, what), "multi_prog");
}

struct ProgramLine {
  unsigned number = 0;
  std::string text;
};

// Lines with what a backslash continues; blank ones and remarks are left out. The number is that of the last part.
std::vector<ProgramLine> program_lines(std::string_view text) {
  std::vector<ProgramLine> out;
  unsigned number = 0;
  std::string joined;
  for (const auto& raw : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(raw);
    if (line.ends_with('\\')) {
      joined += std::string(line.substr(0, line.size() - 1)) + " ";
      continue;
    }
    joined += line;
    std::string whole = std::exchange(joined, {});
    if (const std::string_view said = trim(whole); !said.empty() && said[0] != '#')
      out.push_back({number, std::move(whole)});
  }
  return out;
}

using Programs = std::vector<std::vector<std::string>>;  // by rank; empty = none yet

// "0,4-7", or "*" for all that have no program yet.
Result<std::vector<std::uint32_t>> ranks_of(const std::string& word, const Programs& programs, unsigned number) {
  const auto tasks = static_cast<std::uint32_t>(programs.size());
  std::vector<std::uint32_t> out;
  if (word == "*") {
    for (std::uint32_t rank = 0; rank < tasks; ++rank)
      if (programs[rank].empty())
        out.push_back(rank);
    return out;
  }
  const auto set = IntervalSet::parse(word);
  if (!set)
    return bad_line(number, format("\"{}\" is no list of ranks", word));
  if (set->back() >= tasks)
    return bad_line(number, format("task {} of {} does not exist", set->back(), tasks));
  for (const auto& part : set->intervals())
    for (std::uint64_t rank = part.low; rank <= part.high; ++rank) out.push_back(static_cast<std::uint32_t>(rank));
  return out;
}

// %t is the rank, %o its place among the ranks of the line.
std::string filled(const std::string& word, std::uint32_t rank, std::size_t offset) {
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char next = word[i] == '%' && i + 1 < word.size() ? word[i + 1] : '\0';
    if (next == 't' || next == 'o')
      out += next == 't' ? format("{}", rank) : format("{}", offset), ++i;
    else
      out += word[i];
  }
  return out;
}

Result<void> add_programs(const ProgramLine& line, Programs& programs) {
  auto words = split_directive(line.text, line.number);
  if (!words || words->size() < 2)
    return bad_line(line.number, "expected \"ranks program arguments\"");
  const auto ranks = TRY(ranks_of(words->front(), programs, line.number));
  for (std::size_t offset = 0; offset < ranks.size(); ++offset) {
    auto& argv = programs[ranks[offset]];
    if (!argv.empty())
      return bad_line(line.number, format("task {} has a program already", ranks[offset]));
    for (std::size_t i = 1; i < words->size(); ++i) argv.push_back(filled((*words)[i], ranks[offset], offset));
  }
  return {};
}

}  // namespace

Result<std::vector<std::vector<std::string>>> parse_multi_prog(std::string_view text, std::uint32_t tasks) {
  Programs out(tasks);
  for (const ProgramLine& line : program_lines(text)) TRY(add_programs(line, out));
  for (std::uint32_t rank = 0; rank < tasks; ++rank)
    if (out[rank].empty())
      return invalid(format("multi-prog: no program for task {}", rank), "multi_prog");
  return out;
}

}  // namespace lockstep::slurm
