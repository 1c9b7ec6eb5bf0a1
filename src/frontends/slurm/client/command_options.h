// The options of a command that only reads them: a table of rows, from which its command line is read and its --help is
// made. What a row sets is a member of the command's wish, the struct that holds what was asked for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/option_words.h"
#include "frontends/slurm/client/say.h"

namespace lockstep::slurm {

struct OptionRow {
  char letter = 0;         // 0 = none
  std::string_view names;  // long ones between blanks; help shows the first
  Takes takes = Takes::kNothing;
  std::string_view value;  // how help names it
  std::string_view about;  // "" = help does not list the option
};

// What the cluster is asked: the parameter of the wish's `filters` with this name becomes the value, or "1".
struct Filter {
  const char* name;
};
struct Refusal {
  const char* why;  // the command ends with this
};
enum class Shows : unsigned char { kHelp, kUsage, kVersion };
struct Nothing {};  // accepted, and changes nothing here

template <class Wish>
using OptionSets =
    std::variant<Nothing, Filter, Refusal, Shows, bool Wish::*, std::string Wish::*, std::vector<std::string> Wish::*,
                 void (*)(Wish&), Result<void> (*)(Wish&, const std::string&)>;

template <class Wish>
struct CommandOption : OptionRow {
  OptionSets<Wish> sets = Nothing{};
};

template <class Wish>
struct CommandSyntax {
  std::string_view head;   // of --help, above the options
  std::string_view usage;  // "" = the same as --help
  std::span<const CommandOption<Wish>> options;
  std::size_t column = 27;  // of help, where the text about an option begins
  OptionsStand stand = OptionsStand::kAnywhere;

  std::vector<OptionRow> rows() const { return {options.begin(), options.end()}; }
};

// "  -p, --partition=LIST" and "      --json".
std::string option_head(char letter, std::string_view name, std::string_view value);
std::string help_of(std::string_view head, std::span<const OptionRow> rows, std::size_t column);
std::vector<OptionSpelling> spellings_of(std::span<const OptionRow> rows);
void say_bad_option(const Voice& voice, const Error& error, std::string_view meant);
int print_version();  // "slurm 24.11.5 (lockstep 0.1.0)"
// For commands that take no other words: false, and said, if one is left from `first` on.
bool has_no_words(const Voice& voice, std::span<const std::string> words, std::size_t first = 0);
Result<std::int64_t> interval_of(const std::string& text);  // of --iterate, in seconds

template <class Wish>
std::string help_of(const CommandSyntax<Wish>& syntax) {
  return help_of(syntax.head, syntax.rows(), syntax.column);
}

template <class Wish>
struct Setting {
  Wish& wish;
  const std::optional<std::string>& value;

  std::string text() const { return value.value_or(""); }
  Result<void> operator()(Nothing) const { return {}; }
  Result<void> operator()(Shows) const { return {}; }
  Result<void> operator()(const Refusal& refusal) const { return invalid(refusal.why); }
  Result<void> operator()(const Filter& filter) const {
    if constexpr (requires { wish.filters; })
      wish.filters[filter.name] = value.value_or("1");
    return {};
  }
  Result<void> operator()(bool Wish::*flag) const { return wish.*flag = true, Result<void>(); }
  Result<void> operator()(std::string Wish::*word) const { return wish.*word = text(), Result<void>(); }
  Result<void> operator()(std::vector<std::string> Wish::*list) const {
    return wish.*list = items_of(text()), Result<void>();
  }
  Result<void> operator()(void (*act)(Wish&)) const { return act(wish), Result<void>(); }
  Result<void> operator()(Result<void> (*act)(Wish&, const std::string&)) const { return act(wish, text()); }
};

// What a command line leaves: words that are no options, or the exit code of a command that has nothing more to do.
struct CommandWords {
  std::vector<std::string> words;
  std::optional<int> exit_code;
};

template <class Wish>
std::optional<int> show_instead(const CommandSyntax<Wish>& syntax, const OptionSets<Wish>& sets) {
  const Shows* const what = std::get_if<Shows>(&sets);
  if (!what)
    return std::nullopt;
  if (*what == Shows::kVersion)
    return print_version();
  say(*what == Shows::kUsage && !syntax.usage.empty() ? std::string(syntax.usage) : help_of(syntax));
  return 0;
}

// Reads options in their order until one shows something, or is wrong, which is said.
template <class Wish>
CommandWords read_options(const CommandSyntax<Wish>& syntax, int argc, char** argv, const Voice& voice, Wish& wish) {
  const std::vector<OptionSpelling> spellings = spellings_of(syntax.rows());
  OptionWords words(spellings, {argv + std::min(argc, 1), argv + argc}, syntax.stand);
  for (;;) {
    const auto found = words.next();
    if (!found) {
      say_bad_option(voice, found.error(), words.meant());
      return {{}, 1};
    }
    if (!*found)
      return {words.others(), std::nullopt};
    const OptionSets<Wish>& sets = syntax.options[(*found)->row].sets;
    if (const auto exit_code = show_instead(syntax, sets))
      return {{}, exit_code};
    if (const Result<void> done = std::visit(Setting<Wish>{wish, (*found)->value}, sets); !done) {
      voice.error(done.error().message);
      return {{}, 1};
    }
  }
}

}  // namespace lockstep::slurm
