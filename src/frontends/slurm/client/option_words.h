// Cuts words into options the way Slurm's commands take them: "-n 5" and "-n5", clusters as "-Hk", "--name value" and
// "--name=value", unique beginnings of long names, and "--" behind which nothing is an option.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::slurm {

enum class Takes : unsigned char {
  kNothing,
  kValue,
  kMaybe
};  // kMaybe: only "-j5" and "--jobs=5", never the next word

// One way to write an option.
struct OptionSpelling {
  std::string_view name;  // long, without its dashes; "" = there is a letter only
  char letter = 0;        // 0 = none
  Takes takes = Takes::kNothing;
  std::size_t row = 0;  // the reader's own number of the option. Spellings of one row never make a beginning ambiguous
};

struct FoundOption {
  std::size_t row = 0;
  std::optional<std::string> value;
};

// Where an option may stand beside words that are none.
enum class OptionsStand : unsigned char {
  kAnywhere,
  kInFront,  // the first other word ends them: what follows belongs to somebody else
};

class OptionWords {
 public:
  OptionWords(std::span<const OptionSpelling> known, std::vector<std::string> words, OptionsStand stand)
      : known_(known), words_(std::move(words)), stand_(stand) {}

  // The next option; nullopt behind the last one. The Error of a word that is no option has the field "usage", and its
  // message is worded as getopt's.
  Result<std::optional<FoundOption>> next();
  // The long name that an unknown one may stand for, after next() has failed. "" if none is near.
  std::string_view meant() const { return meant_; }
  // The words that are no options, in their order. Complete when next() has given nullopt.
  const std::vector<std::string>& others() const { return others_; }

 private:
  Result<FoundOption> take_letter();
  Result<FoundOption> take_name();
  Result<const OptionSpelling*> spelled(const std::string& word, std::string_view name);
  std::optional<std::string> next_word();

  std::span<const OptionSpelling> known_;
  std::vector<std::string> words_;
  OptionsStand stand_;
  std::size_t at_ = 0;      // the word that is read next
  std::size_t letter_ = 0;  // within a cluster: the letter that is read next. 0 = not within one
  std::vector<std::string> others_;
  std::string_view meant_;
};

}  // namespace lockstep::slurm
