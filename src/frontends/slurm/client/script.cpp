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

namespace {

struct CutWord {
  std::string text;
  char open_quote = 0;          // 0 = every quote is closed
  bool before_comment = false;  // a remark follows at once
};
// One word from `at` on, which moves to what ends it. Quotes and backslashes are taken off.
CutWord cut_word(std::string_view text, std::size_t& at) {
  CutWord word;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && at + 1 < text.size()) {
      word.text += text[++at];
    } else if (word.open_quote) {
      if (c == word.open_quote)
        word.open_quote = 0;
      else
        word.text += c;
    } else if (c == '"' || c == '\'') {
      word.open_quote = c;
    } else if (blank(c) || c == '#') {
      word.before_comment = c == '#';
      break;
    } else {
      word.text += c;
    }
  }
  return word;
}

}  // namespace

Result<std::vector<std::string>> split_directive(std::string_view text, unsigned line) {
  std::vector<std::string> words;
  std::size_t at = 0;
  for (;;) {
    while (at < text.size() && blank(text[at])) ++at;
    if (at == text.size() || text[at] == '#')
      return words;
    if (text[at] == ':')
      return invalid(format("script line {}: Unexpected `:` in [{}]", line, text), "script");
    CutWord word = cut_word(text, at);
    if (word.open_quote)
      return invalid(format("script line {}: Unmatched `{}` in [{}]", line, word.open_quote, text), "script");
    words.push_back(std::move(word.text));
    if (word.before_comment)
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
