#include "frontends/slurm/client/option_words.h"

#include <gtest/gtest.h>

#include <map>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"

namespace lockstep::slurm {
namespace {

constexpr OptionSpelling kKnown[] = {{"account", 'A', Takes::kValue, 0}, {"accounts", 0, Takes::kValue, 0},
                                     {"all", 'a', Takes::kNothing, 1},   {"jobs", 'j', Takes::kMaybe, 2},
                                     {"long", 'l', Takes::kNothing, 3},  {"longer", 0, Takes::kNothing, 4},
                                     {"", 'z', Takes::kNothing, 5}};

// "0=x 1 | word": rows with their values, then the words that are no options; or what was wrong.
std::string cut(std::vector<std::string> words, OptionsStand stand = OptionsStand::kAnywhere) {
  OptionWords options(kKnown, std::move(words), stand);
  std::string out;
  for (;;) {
    const auto found = options.next();
    if (!found) {
      EXPECT_EQ(found.error().field, "usage");
      return found.error().message + (options.meant().empty() ? "" : format(" ({})", options.meant()));
    }
    if (!*found)
      break;
    out += format("{}{} ", (*found)->row, (*found)->value ? format("={}", *(*found)->value) : std::string());
  }
  return out + "| " + join(options.others(), " ");
}

TEST(OptionWords, LettersClusterAndTakeWhatFollows) {
  EXPECT_EQ(cut({"-al", "-Ax", "-A", "y", "-alA", "z"}), "1 3 0=x 0=y 1 3 0=z | ");
  EXPECT_EQ(cut({"-aAl"}), "1 0=l | ");
  EXPECT_EQ(cut({"-A", "--"}), "0=-- | ");
  EXPECT_EQ(cut({"-z"}), "5 | ");
  EXPECT_EQ(cut({"-A", ""}), "0= | ");
}

TEST(OptionWords, AValueThatMayBeMissingIsNeverTheNextWord) {
  EXPECT_EQ(cut({"-j", "5"}), "2 | 5");
  EXPECT_EQ(cut({"-j5", "--jobs=6", "--jobs", "7", "--jobs="}), "2=5 2=6 2 2= | 7");
}

TEST(OptionWords, NamesMayBeCutShort) {
  EXPECT_EQ(cut({"--acc=x", "--account", "y", "--accounts=z"}), "0=x 0=y 0=z | ");
  EXPECT_EQ(cut({"--long", "--longe"}), "3 4 | ");  // a whole name counts before one that it begins
  EXPECT_EQ(cut({"--lon"}), "option '--lon' is ambiguous; possibilities: '--long' '--longer'");
  EXPECT_EQ(cut({"--a=1"}), "option '--a=1' is ambiguous; possibilities: '--account' '--accounts' '--all'");
}

TEST(OptionWords, WhatIsWrongIsNamed) {
  EXPECT_EQ(cut({"-q"}), "invalid option -- 'q'");
  EXPECT_EQ(cut({"-aq"}), "invalid option -- 'q'");
  EXPECT_EQ(cut({"-A"}), "option requires an argument -- 'A'");
  EXPECT_EQ(cut({"--accounts"}), "option '--accounts' requires an argument");
  EXPECT_EQ(cut({"--all=1"}), "option '--all' doesn't allow an argument");
  EXPECT_EQ(cut({"--acount=x"}), "unrecognized option '--acount=x' (account)");
  EXPECT_EQ(cut({"--nothing-near"}), "unrecognized option '--nothing-near'");
  EXPECT_EQ(cut({"--=x"}), "unrecognized option '--=x'");
}

TEST(OptionWords, WordsThatAreNoOptions) {
  EXPECT_EQ(cut({"b", "-a", "c", "-", "--", "-l"}), "1 | b c - -l");
  EXPECT_EQ(cut({"-a", "b", "-l"}, OptionsStand::kInFront), "1 | b -l");
  EXPECT_EQ(cut({"-a", "--", "-l"}, OptionsStand::kInFront), "1 | -l");
  EXPECT_EQ(cut({}), "| ");
}

struct Wish {
  std::map<std::string, std::string> filters;
  std::vector<std::string> names;
  std::string sort;
  bool json = false;
  int times = 0;
};
void count(Wish& wish) { ++wish.times; }
Result<void> refuse(Wish&, const std::string& text) { return invalid("not " + text); }
constexpr CommandOption<Wish> kOptions[] = {
    {'u', "user users", Takes::kValue, "LIST", "whose", Filter{"user"}},
    {0, "me", Takes::kNothing, "", "mine", Filter{"me"}},
    {'n', "name", Takes::kValue, "NAMES", "called so", &Wish::names},
    {0, "a-long-name-for-sort", Takes::kValue, "FIELDS", "in this order", &Wish::sort},
    {0, "json", Takes::kMaybe, "", "as JSON", &Wish::json},
    {'c', "count", Takes::kNothing, "", "", count},
    {'r', "refuse", Takes::kValue, "", "", refuse},
    {0, "yaml", Takes::kMaybe, "", "", Refusal{"no YAML"}},
    {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
};
constexpr CommandSyntax<Wish> kSyntax = {.head = "Usage: wish\n", .options = kOptions, .column = 20};

CommandWords read(std::vector<std::string> words, Wish& wish) {
  words.insert(words.begin(), "wish");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  return read_options(kSyntax, static_cast<int>(argv.size()), argv.data(), Voice("wish"), wish);
}

TEST(CommandOptions, RowsSetWhatTheyName) {
  Wish wish;
  const auto line =
      read({"-u", "ann,bob", "--me", "-na,b", "--a-long-name-for-sort=P", "--json", "-ccv", "rest"}, wish);
  EXPECT_FALSE(line.exit_code);
  EXPECT_EQ(line.words, std::vector<std::string>{"rest"});
  EXPECT_EQ(wish.filters, (std::map<std::string, std::string>{{"me", "1"}, {"user", "ann,bob"}}));
  EXPECT_EQ(wish.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(wish.sort, "P");
  EXPECT_TRUE(wish.json);
  EXPECT_EQ(wish.times, 2);
}

TEST(CommandOptions, WhatIsWrongEndsTheCommand) {
  for (const char* bad : {"--nosuch", "-rx", "--yaml", "-q"}) {
    Wish wish;
    testing::internal::CaptureStderr();
    EXPECT_EQ(read({bad, "-c"}, wish).exit_code, 1) << bad;
    EXPECT_EQ(wish.times, 0) << bad;
    EXPECT_NE(testing::internal::GetCapturedStderr().find("wish: "), std::string::npos) << bad;
  }
}

TEST(CommandOptions, HelpListsRowsThatSayWhatTheyDo) {
  EXPECT_EQ(help_of(kSyntax),
            "Usage: wish\n"
            "  -u, --user=LIST   whose\n"
            "      --me          mine\n"
            "  -n, --name=NAMES  called so\n"
            "      --a-long-name-for-sort=FIELDS in this order\n"
            "      --json        as JSON\n");
}

}  // namespace
}  // namespace lockstep::slurm
