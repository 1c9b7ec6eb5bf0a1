#include "frontends/slurm/client/command_options.h"

#include <unistd.h>

namespace lockstep::slurm {

std::string option_head(char letter, std::string_view name, std::string_view value) {
  return letter ? format("  -{}, --{}{}", letter, name, value) : format("      --{}{}", name, value);
}

std::string help_of(std::string_view head, std::span<const OptionRow> rows, std::size_t column) {
  std::string out(head);
  for (const OptionRow& row : rows) {
    if (row.about.empty())
      continue;
    std::string line = option_head(row.letter, row.names.substr(0, row.names.find(' ')),
                                   row.value.empty() ? "" : format("={}", row.value));
    line.resize(std::max(column, line.size() + 1), ' ');
    out += format("{}{}\n", line, row.about);
  }
  return out;
}

std::vector<OptionSpelling> spellings_of(std::span<const OptionRow> rows) {
  std::vector<OptionSpelling> out;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    char letter = rows[row].letter;
    std::string_view rest = rows[row].names;
    do {
      const auto blank = rest.find(' ');
      out.push_back({rest.substr(0, blank), letter, rows[row].takes, row});
      letter = 0;  // once is enough
      rest = blank == std::string_view::npos ? std::string_view() : rest.substr(blank + 1);
    } while (!rest.empty());
  }
  return out;
}

void say_bad_option(const Voice& voice, const Error& error, std::string_view meant) {
  std::string out = format("{}: {}\n", voice.command(), error.message);
  if (!meant.empty())
    out += format("Did you mean --{}?\n", meant);
  write_all(STDERR_FILENO, out + format("Try \"{} --help\" for more information\n", voice.command()));
}

int print_version() {
  say("slurm 24.11.5 (lockstep " LOCKSTEP_VERSION ")\n");
  return 0;
}

bool has_no_words(const Voice& voice, std::span<const std::string> words, std::size_t first) {
  if (first < words.size())
    voice.error(format("Unrecognized option: {}", words[first]));
  return first >= words.size();
}

Result<std::int64_t> interval_of(const std::string& text) {
  const std::int64_t interval = parse_int(text).value_or(0);
  if (interval <= 0)
    return invalid(format("invalid entry for --iterate={}", text));
  return interval;
}

}  // namespace lockstep::slurm
