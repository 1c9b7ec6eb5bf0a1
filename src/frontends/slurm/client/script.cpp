#include "frontends/slurm/client/script.h"

#include "base/text.h"
#include "model/script_flaw.h"

namespace lockstep::slurm {

namespace {

constexpr std::string_view kPrefix = "#SBATCH";
constexpr std::string_view kOldPrefix = "#SLURM";

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

bool is_separator(const std::vector<std::string>& words) {
  return words.size() == 1 && (words[0] == "hetjob" || words[0] == "packjob");
}

}  // namespace

Result<void> check_script(std::string_view text) {
  if (text.size() > kScriptMax)
    return invalid(format("Job script exceeds size limit: {} bytes, at most {}", text.size(), kScriptMax), "script");
  switch (flaw_in_script(text)) {
    case ScriptFlaw::kNone: break;
    case ScriptFlaw::kEmpty: return invalid("Batch script is empty!", "script");
    case ScriptFlaw::kBlank: return invalid("Batch script contains only whitespace!", "script");
    case ScriptFlaw::kNoInterpreter:
      return invalid(
          "This does not look like a batch script.  The first\n"
          "line must start with #! followed by the path to an interpreter.\n"
          "For instance: #!/bin/sh",
          kNotAScript);
    case ScriptFlaw::kNul:
      return invalid("The SLURM controller does not allow scripts that\ncontain a NULL character '\\0'.", "script");
    case ScriptFlaw::kDosLineEnds:
      return invalid("Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n).",
                     "script");
  }
  return {};
}

Result<std::vector<std::string>> split_directive(std::string_view text, unsigned line) {
  std::vector<std::string> words;
  std::size_t i = 0;
  for (;;) {
    while (i < text.size() && blank(text[i])) ++i;
    if (i == text.size() || text[i] == '#')
      return words;
    if (text[i] == ':')
      return invalid(format("script line {}: Unexpected `:` in [{}]", line, text), "script");
    std::string word;
    char quote = 0;
    bool comment = false;
    for (; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '\\' && i + 1 < text.size()) {
        word += text[++i];
      } else if (quote) {
        if (c == quote)
          quote = 0;
        else
          word += c;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (blank(c)) {
        break;
      } else if (c == '#') {
        comment = true;
        break;
      } else {
        word += c;
      }
    }
    if (quote)
      return invalid(format("script line {}: Unmatched `{}` in [{}]", line, quote, text), "script");
    words.push_back(std::move(word));
    if (comment)
      return words;
  }
}

Result<ScriptOptions> read_directives(std::string_view text) {
  ScriptOptions out;
  bool warned = false;
  unsigned number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    std::string_view rest;
    if (line.starts_with(kPrefix)) {
      rest = line.substr(kPrefix.size());
    } else if (line.starts_with(kOldPrefix)) {
      rest = line.substr(kOldPrefix.size());
      if (!warned)
        out.notes.push_back(
            format("script line {}: lines beginning with #SLURM are deprecated; use #SBATCH instead", number));
      warned = true;
    } else {
      std::size_t first = 0;
      while (first < line.size() && blank(line[first])) ++first;
      if (first < line.size() && line[first] != '#')
        break;
      continue;
    }
    auto words = TRY(split_directive(rest, number));
    if (words.empty())
      continue;
    if (is_separator(words)) {
      out.components.emplace_back();
      continue;
    }
    out.components.back().push_back({std::move(words), number});
  }
  return out;
}

}  // namespace lockstep::slurm
