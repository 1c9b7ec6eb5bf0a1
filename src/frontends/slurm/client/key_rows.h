// Tables of keys, as "Key=Value" has them: a row names the spellings of one key, and the function that writes its value
// into a record.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace lockstep::slurm {

template <class Record, class Word>
struct KeyRow {
  std::string_view names;  // between blanks, in lower case
  Result<void> (*set)(Record& record, const Word& word);
};

using KeyAndValue = std::pair<std::string, std::string>;

inline Error bad_value(const KeyAndValue& pair) {
  return invalid(format("Invalid value for {}: {}", pair.first, pair.second), pair.first);
}

template <class T>
Result<T> needed(std::optional<T> value, const KeyAndValue& pair) {
  if (!value)
    return bad_value(pair);
  return std::move(*value);
}

// Whether a word is one of those between blanks.
inline bool is_among(std::string_view names, std::string_view word) {
  for (;;) {
    const auto blank = names.find(' ');
    if (names.substr(0, blank) == word)
      return true;
    if (blank == std::string_view::npos)
      return false;
    names.remove_prefix(blank + 1);
  }
}

// False: no row has the key.
template <class Record, class Word, std::size_t kRows>
Result<bool> set_by_key(const KeyRow<Record, Word> (&rows)[kRows], Record& record, std::string_view key,
                        const Word& word) {
  for (const auto& row : rows)
    if (is_among(row.names, key)) {
      TRY(row.set(record, word));
      return true;
    }
  return false;
}

}  // namespace lockstep::slurm
