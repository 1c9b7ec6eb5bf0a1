#include "frontends/slurm/client/option_words.h"

#include <algorithm>

#include "base/nearest.h"
#include "base/text.h"

namespace lockstep::slurm {

namespace {

Error usage_error(std::string message) { return invalid(std::move(message), "usage"); }

bool is_option(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

}  // namespace

Result<std::optional<FoundOption>> OptionWords::next() {
  if (letter_ > 0)
    return std::optional(TRY(take_letter()));
  for (; at_ < words_.size(); ++at_) {
    const std::string& word = words_[at_];
    if (word == "--") {
      ++at_;
      break;
    }
    if (word.starts_with("--"))
      return std::optional(TRY(take_name()));
    if (is_option(word)) {
      letter_ = 1;
      return std::optional(TRY(take_letter()));
    }
    if (stand_ == OptionsStand::kInFront)
      break;
    others_.push_back(word);
  }
  while (auto word = next_word()) others_.push_back(std::move(*word));
  return std::optional<FoundOption>();
}

std::optional<std::string> OptionWords::next_word() {
  return at_ < words_.size() ? std::optional(words_[at_++]) : std::nullopt;
}

Result<FoundOption> OptionWords::take_letter() {
  const std::string& word = words_[at_];
  CHECK(letter_ > 0 && letter_ < word.size());
  const char letter = word[letter_++];
  const auto known = std::find_if(known_.begin(), known_.end(),
                                  [&](const OptionSpelling& one) { return one.letter != 0 && one.letter == letter; });
  if (known == known_.end())
    return usage_error(format("invalid option -- '{}'", letter));
  const std::string behind = word.substr(letter_);
  if (known->takes == Takes::kNothing && !behind.empty())
    return FoundOption{known->row, std::nullopt};
  letter_ = 0;
  ++at_;
  if (known->takes == Takes::kNothing)
    return FoundOption{known->row, std::nullopt};
  if (!behind.empty())
    return FoundOption{known->row, behind};
  if (known->takes == Takes::kMaybe)
    return FoundOption{known->row, std::nullopt};
  auto value = next_word();
  if (!value)
    return usage_error(format("option requires an argument -- '{}'", letter));
  return FoundOption{known->row, std::move(value)};
}

Result<FoundOption> OptionWords::take_name() {
  const std::string word = words_[at_++];
  const auto equals = word.find('=');
  const OptionSpelling& known = *TRY(spelled(word, std::string_view(word).substr(2, equals - 2)));
  if (equals != std::string::npos) {
    if (known.takes == Takes::kNothing)
      return usage_error(format("option '--{}' doesn't allow an argument", known.name));
    return FoundOption{known.row, word.substr(equals + 1)};
  }
  if (known.takes != Takes::kValue)
    return FoundOption{known.row, std::nullopt};
  auto value = next_word();
  if (!value)
    return usage_error(format("option '--{}' requires an argument", known.name));
  return FoundOption{known.row, std::move(value)};
}

// The whole name counts before any that it begins.
Result<const OptionSpelling*> OptionWords::spelled(const std::string& word, std::string_view name) {
  std::vector<const OptionSpelling*> begun;
  for (const OptionSpelling& one : known_) {
    if (name.empty() || !one.name.starts_with(name))
      continue;
    if (one.name == name)
      return &one;
    begun.push_back(&one);
  }
  if (begun.empty()) {
    std::vector<std::string_view> names;
    for (const OptionSpelling& one : known_)
      if (!one.name.empty())
        names.push_back(one.name);
    meant_ = nearest(name, names);
    return usage_error(format("unrecognized option '{}'", word));
  }
  if (std::any_of(begun.begin(), begun.end(), [&](const auto* one) { return one->row != begun[0]->row; })) {
    std::string candidates;
    for (const OptionSpelling* one : begun) candidates += format(" '--{}'", one->name);
    return usage_error(format("option '{}' is ambiguous; possibilities:{}", word, candidates));
  }
  return begun[0];
}

}  // namespace lockstep::slurm
