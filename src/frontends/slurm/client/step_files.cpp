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

std::string expand_pattern(std::string_view pattern, const PatternFacts& facts) {
  std::string out;
  if (pattern.find('\\') != std::string_view::npos) {
    for (const char c : pattern)
      if (c != '\\')
        out += c;
    return out;
  }
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const std::size_t start = i++;
    std::size_t width = 0;
    while (i + 1 < pattern.size() && pattern[i] >= '0' && pattern[i] <= '9')
      width = std::min<std::size_t>(10, width * 10 + static_cast<std::size_t>(pattern[i++] - '0'));
    const auto padded = [&](std::uint64_t value) { out += format("{:0{}}", value, width); };
    switch (pattern[i]) {
      case '%': out += '%'; break;
      case 'j': padded(facts.job); break;
      case 'J': out += format("{}.{}", facts.job, facts.step); break;
      case 's': padded(static_cast<std::uint64_t>(std::max(0, facts.step))); break;
      case 'A': padded(facts.array_job ? facts.array_job : facts.job); break;
      case 'a': padded(facts.array_job ? facts.array_index : 4294967294U); break;
      case 'b': padded(facts.array_job ? facts.array_index % 10 : 4); break;
      case 'u': out += facts.user; break;
      case 'x': out += facts.job_name; break;
      default: out += pattern.substr(start, i - start + 1);
    }
  }
  return out;
}

Result<std::vector<std::vector<std::string>>> parse_multi_prog(std::string_view text, std::uint32_t tasks) {
  std::vector<std::vector<std::string>> out(tasks);
  unsigned number = 0;
  std::string joined;
  for (const auto& raw : split(text, '\n')) {
    ++number;
    std::string_view line = trim(raw);
    if (!line.empty() && line.back() == '\\') {
      joined += std::string(line.substr(0, line.size() - 1)) + " ";
      continue;
    }
    joined += line;
    const std::string whole = std::exchange(joined, {});
    if (trim(whole).empty() || trim(whole)[0] == '#')
      continue;
    auto words = split_directive(whole, number);
    if (!words || words->size() < 2)
      return invalid(format("multi-prog line {}: expected \"ranks program arguments\"", number), "multi_prog");
    const std::string ranks = (*words)[0];
    words->erase(words->begin());
    std::vector<std::uint32_t> chosen;
    if (ranks == "*") {
      for (std::uint32_t rank = 0; rank < tasks; ++rank)
        if (out[rank].empty())
          chosen.push_back(rank);
    } else {
      const auto set = IntervalSet::parse(ranks);
      if (!set)
        return invalid(format("multi-prog line {}: \"{}\" is no list of ranks", number, ranks), "multi_prog");
      for (const auto& part : set->intervals())
        for (std::uint64_t rank = part.low; rank <= part.high && rank < tasks; ++rank)
          chosen.push_back(static_cast<std::uint32_t>(rank));
      if (set->back() >= tasks)
        return invalid(format("multi-prog line {}: task {} of {} does not exist", number, set->back(), tasks),
                       "multi_prog");
    }
    for (std::size_t offset = 0; offset < chosen.size(); ++offset) {
      auto& argv = out[chosen[offset]];
      if (!argv.empty())
        return invalid(format("multi-prog line {}: task {} has a program already", number, chosen[offset]),
                       "multi_prog");
      for (const auto& word : *words) {
        std::string filled;
        for (std::size_t i = 0; i < word.size(); ++i) {
          if (word[i] == '%' && i + 1 < word.size() && (word[i + 1] == 't' || word[i + 1] == 'o'))
            filled += word[++i] == 't' ? format("{}", chosen[offset]) : format("{}", offset);
          else
            filled += word[i];
        }
        argv.push_back(std::move(filled));
      }
    }
  }
  for (std::uint32_t rank = 0; rank < tasks; ++rank)
    if (out[rank].empty())
      return invalid(format("multi-prog: no program for task {}", rank), "multi_prog");
  return out;
}

}  // namespace lockstep::slurm
