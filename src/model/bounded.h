// How much a field may hold. Beside each field, the lists of fields (model/*_fields.h) name one of these; the decoders
// of what strangers say (wire/fields.h) and the core (model/within.h) ask it, so that no bound is written twice.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/interval_set.h"
#include "base/text.h"
#include "base/time.h"
#include "model/bounds.h"
#include "model/resources.h"

namespace lockstep {

// What is wrong with a value, and where in it: "[3].name"; "" = the value itself. `why` goes on where the field's name
// ends: "has 300 bytes; 256 are allowed".
struct Fault {
  std::string where, why;
};

namespace bounded {

// Descriptors answer refuses(value). Lists state entries_max besides, which is asked before they are read.
inline constexpr std::size_t kNoCount = SIZE_MAX;

// The type bounds it: flags, numbers, states, ids, times, and structs, which have lists of their own.
struct Plain {
  static constexpr std::size_t entries_max = kNoCount;
  template <class M>
  std::optional<Fault> refuses(const M&) const {
    return {};
  }
};
// We work it out ourselves, from what is bounded.
struct Ours : Plain {};

// Whole numbers, and durations in microseconds.
struct Between {
  std::int64_t low = 0, high = 0;
  static constexpr std::size_t entries_max = kNoCount;

  template <class M>
  std::optional<Fault> refuses(const M& value) const {
    if (within(value))
      return {};
    return Fault{{}, format("must be between {} and {}", low, high)};
  }

 private:
  bool within(Duration d) const { return d.us >= low && d.us <= high; }
  template <class N>
  bool within(const std::optional<N>& n) const {
    return !n || within(*n);
  }
  template <class N>
  requires std::is_integral_v<N>
  bool within(N n) const { return std::cmp_greater_equal(n, low) && std::cmp_less_equal(n, high); }
};

// Which characters a text may hold. Names are shown in tables, where a control character would forge rows or reach the
// reader's terminal; texts may have lines.
enum class Characters : unsigned char {
  kName,  // no control characters
  kText,  // of them, newline and tab
  kAny,
};

struct Text {
  std::size_t bytes_max = 0;
  Characters characters = Characters::kName;
  static constexpr std::size_t entries_max = kNoCount;

  std::optional<Fault> refuses(std::string_view text) const { return text.empty() ? std::nullopt : refuses_some(text); }
  template <class T>
  std::optional<Fault> refuses(const std::optional<T>& text) const {
    return text ? refuses(*text) : std::nullopt;
  }

 private:
  std::optional<Fault> refuses_some(std::string_view text) const;
};

struct Texts {
  std::size_t entries_max = 0;
  std::size_t bytes_max = 0;  // of all together
  Text each;

  std::optional<Fault> refuses(const std::vector<std::string>& list) const;
  template <class T>
  std::optional<Fault> refuses(const std::optional<T>& list) const {
    return list ? refuses(*list) : std::nullopt;
  }
};

// Name and text. Names hold no control characters.
struct Pairs {
  std::size_t entries_max = 0;
  std::size_t bytes_max = 0;  // names and texts of all together
  Characters texts = Characters::kAny;

  std::optional<Fault> refuses(const std::vector<std::pair<std::string, std::string>>& list) const;
  template <class T>
  std::optional<Fault> refuses(const std::optional<T>& list) const {
    return list ? refuses(*list) : std::nullopt;
  }
};

// Command lines.
struct TextLists {
  std::size_t entries_max = 0;  // also of their words together
  std::size_t bytes_max = 0;    // of all words together

  std::optional<Fault> refuses(const std::vector<std::vector<std::string>>& lists) const;
};

Fault too_many(std::size_t count, std::size_t most);

// Lists of anything else. Of a set of numbers, its separate ranges count.
struct Items {
  std::size_t entries_max = 0;

  template <class List>
  std::optional<Fault> refuses(const List& list) const {
    const std::size_t count = count_of(list);
    return count <= entries_max ? std::nullopt : std::optional(too_many(count, entries_max));
  }

 private:
  static std::size_t count_of(const IntervalSet& set) { return set.intervals().size(); }
  template <class T>
  static std::size_t count_of(const std::optional<T>& list) {
    return list ? count_of(*list) : 0;
  }
  template <class List>
  static std::size_t count_of(const List& list) {
    return list.size();
  }
};

// Written in a form of their own (wire/forms.h); held by records that we make.
struct RankList : Plain {};       // numbers in ascending order: "0-3,7"
struct MemberLetters : Plain {};  // one letter each: a(ssigned), r(unning), s(topped), p(aused)

inline constexpr Between kSpan{0, kForever.us};  // a Duration that is not negative
inline constexpr Between kSignal{0, 64};         // 0 = none
inline constexpr Between kMegabytes{0, kMegabytesMax};
inline constexpr Between kUmask{0, 0777};
inline constexpr Between kCount{0, kAmountMax};
inline constexpr Between kSum{0, kSumMax};
inline constexpr Between kLimit{-1, kSumMax};  // kNoLimit = none

inline constexpr Text kName{kNameBytesMax};
inline constexpr Text kLabelName{2 * kNameBytesMax};  // a prefix and a name
inline constexpr Text kPhrase{kPhraseBytesMax};
inline constexpr Text kPath{kPathBytesMax, Characters::kAny};
inline constexpr Text kLines{kTextBytesMax, Characters::kText};
inline constexpr Text kBytes{kTextBytesMax, Characters::kAny};

inline constexpr Texts kNames{kNamesMax, kNamesBytesMax, kName};
inline constexpr Texts kManyNames{kManyNamesMax, kManyNamesBytesMax, kName};
inline constexpr Texts kNodeNames{kNodeNamesMax, kNodeNamesBytesMax, kName};
inline constexpr Texts kAllNodes{kAllNodesMax, kAllNodesBytesMax, kName};
inline constexpr Texts kLevels{kLevelsMax, kNamesBytesMax, kName};
inline constexpr Texts kArgv{kArgvWordsMax, kArgvBytesMax, {kArgvBytesMax, Characters::kAny}};
inline constexpr Pairs kVariables{kVariablesMax, kVariablesBytesMax};
inline constexpr Pairs kLabels{kLabelsMax, kLabelsBytesMax};

}  // namespace bounded

}  // namespace lockstep
