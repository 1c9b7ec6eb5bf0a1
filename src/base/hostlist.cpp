// Host lists: see the header. Follows Slurm's own rules for which names share a range and a bracket group.
#include "base/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kDigitsMax = 18;           // longer numbers do not fit 64 bits
constexpr std::size_t kHostNameMax = 255;        // DNS allows 253; bounds what a short text can expand to
constexpr std::string_view kBlanks = "\t\n\r ";  // separate names, as in Slurm

bool digit(char c) { return c >= '0' && c <= '9'; }

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t value = 0;
  for (char c : digits) value = value * 10 + static_cast<std::uint64_t>(c - '0');
  return value;
}

std::size_t digits_in(std::uint64_t value) {
  std::size_t n = 1;
  while (value >= 10) value /= 10, ++n;
  return n;
}

void append_padded(std::string& out, std::uint64_t value, std::size_t width) {
  const std::size_t digits = digits_in(value);
  if (digits < width)
    out.append(width - digits, '0');
  char text[20];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// "gpu007" -> prefix "gpu", number 7, width 3. Without a usable number, width is 0 and the prefix is the whole name.
struct NameParts {
  std::string_view prefix;
  std::uint64_t number = 0;
  std::size_t width = 0;
};

NameParts parts_of(std::string_view name) {
  std::size_t at = name.size();
  while (at > 0 && digit(name[at - 1])) --at;
  const std::size_t width = name.size() - at;
  if (width == 0 || width > kDigitsMax)
    return {name, 0, 0};
  return {name.substr(0, at), number_of(name.substr(at)), width};
}

// --- reading ---

struct NumberRange {
  std::uint64_t low = 0, high = 0;
  std::size_t width = 1;
};

// A name with bracket groups: literal[0] group[0] literal[1] group[1] … literal[n].
struct Pattern {
  std::vector<std::string_view> literals;
  std::vector<std::vector<NumberRange>> groups;
};

class Parser {
 public:
  Parser(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  Result<std::vector<std::string>> run() {
    std::vector<std::string> names;
    for (;;) {
      while (at_ < text_.size() && separator(text_[at_])) ++at_;
      if (at_ == text_.size())
        return names;
      const std::size_t start = at_;
      const Pattern pattern = TRY(read_pattern());
      TRY(expand(pattern, start, names));
    }
  }

 private:
  static bool separator(char c) { return c == ',' || kBlanks.find(c) != std::string_view::npos; }

  Error refused(std::size_t at, std::string_view why) const {
    return invalid(format("host list, column {}: {}", at + 1, why));
  }

  Result<Pattern> read_pattern() {
    Pattern pattern;
    std::size_t start = at_;
    for (; at_ < text_.size() && !separator(text_[at_]); ++at_) {
      if (text_[at_] == ']')
        return refused(at_, "']' without '['");
      if (text_[at_] != '[')
        continue;
      pattern.literals.push_back(text_.substr(start, at_ - start));
      pattern.groups.push_back(TRY(read_group()));
      start = at_ + 1;
    }
    pattern.literals.push_back(text_.substr(start, at_ - start));
    return pattern;
  }

  // at_ is on the '['; leaves it on the ']'.
  Result<std::vector<NumberRange>> read_group() {
    const std::size_t open = at_;
    std::vector<NumberRange> ranges;
    do {
      ++at_;
      const std::size_t start = at_;
      NumberRange range;
      range.low = TRY(read_number(open));
      range.width = at_ - start;
      range.high = range.low;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        range.high = TRY(read_number(open));
      }
      if (range.high < range.low)
        return refused(start, format("{} runs backwards", text_.substr(start, at_ - start)));
      ranges.push_back(range);
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ >= text_.size())
      return refused(open, "'[' is never closed");
    if (text_[at_] != ']')
      return refused(at_, "expected a number, ',', '-' or ']'");
    return ranges;
  }

  Result<std::uint64_t> read_number(std::size_t open) {
    const std::size_t start = at_;
    while (at_ < text_.size() && digit(text_[at_])) ++at_;
    if (at_ == start)
      return at_ == text_.size() ? refused(open, "'[' is never closed") : refused(at_, "expected a number");
    if (at_ - start > kDigitsMax)
      return refused(start, format("a number has at most {} digits", kDigitsMax));
    return number_of(text_.substr(start, at_ - start));
  }

  // Appends every name of the pattern, the last group counting fastest.
  Result<void> expand(const Pattern& pattern, std::size_t start, std::vector<std::string>& names) const {
    std::size_t total = 1, longest = 0;
    for (const auto& group : pattern.groups) {
      std::uint64_t in_group = 0;
      std::size_t widest = 0;
      for (const NumberRange& range : group) {
        in_group += std::min<std::uint64_t>(range.high - range.low + 1, most_ + 1);
        widest = std::max({widest, range.width, digits_in(range.high)});
        if (in_group > most_)
          return too_many(start);
      }
      total *= in_group;
      if (total > most_)
        return too_many(start);
      longest += widest;
    }
    if (names.size() + total > most_)
      return too_many(start);
    for (const auto literal : pattern.literals) longest += literal.size();
    if (longest > kHostNameMax)
      return refused(start, format("a host name has at most {} characters", kHostNameMax));
    std::string name;
    append_names(pattern, 0, name, names);
    return {};
  }

  Error too_many(std::size_t start) const {
    return {Errc::kExhausted, format("host list, column {}: names more than {} hosts", start + 1, kHostlistMax), {}};
  }

  // Recursion is as deep as there are groups, and kHostNameMax bounds those.
  static void append_names(const Pattern& pattern, std::size_t group, std::string& name,
                           std::vector<std::string>& names) {
    const std::size_t before = name.size();
    name += pattern.literals[group];
    if (group == pattern.groups.size()) {
      names.push_back(name);
    } else {
      const std::size_t after_literal = name.size();
      for (const NumberRange& range : pattern.groups[group]) {
        for (std::uint64_t value = range.low; value <= range.high; ++value) {
          append_padded(name, value, range.width);
          append_names(pattern, group + 1, name, names);
          name.resize(after_literal);
        }
      }
    }
    name.resize(before);
  }

  std::string_view text_;
  std::size_t most_;
  std::size_t at_ = 0;
};

// --- order ---

// Takes the run of digits at the place away, without the zeros before it.
std::string_view take_run(std::string_view text, std::size_t& at) {
  while (at < text.size() && text[at] == '0') ++at;
  const std::size_t start = at;
  while (at < text.size() && digit(text[at])) ++at;
  return text.substr(start, at - start);
}

// As numbers, however long they are.
int compare_runs(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
}

// Like strcmp, but runs of digits compare as numbers: "rack2n" before "rack10n".
int natural_compare(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const std::string_view x = take_run(a, i), y = take_run(b, j);
      if (const int order = compare_runs(x, y))
        return order;
      continue;
    }
    if (a[i] != b[j])
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]) ? -1 : 1;
    ++i, ++j;
  }
  if (i < a.size() || j < b.size())
    return i < a.size() ? 1 : -1;
  return a.compare(b);  // "n01x" and "n1x" are different names
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t most) {
  return Parser(text, most).run();
}

namespace {

// Names that follow each other in their number, written in one width.
struct NameRange {
  NameParts first;
  std::uint64_t high = 0;
  bool is_followed_by(const NameParts& name) const {
    return name.width && first.width && first.prefix == name.prefix && name.number == high + 1 &&
           std::max(first.width, digits_in(name.number)) == name.width;
  }
  bool is_one() const { return high == first.number; }
};

std::vector<NameRange> ranges_of(const std::vector<std::string>& names) {
  std::vector<NameRange> ranges;
  for (const std::string& name : names) {
    const NameParts parts = parts_of(name);
    if (!ranges.empty() && ranges.back().is_followed_by(parts))
      ranges.back().high = parts.number;
    else
      ranges.push_back({parts, parts.number});
  }
  return ranges;
}

// Ranges with the same prefix, whatever their widths, within one pair of brackets.
void append_group(std::string& out, std::span<const NameRange> group) {
  out += group.front().first.prefix;
  if (!group.front().first.width)
    return;
  const bool brackets = group.size() > 1 || !group.front().is_one();
  if (brackets)
    out += '[';
  for (const NameRange& range : group) {
    if (&range != &group.front())
      out += ',';
    append_padded(out, range.first.number, range.first.width);
    if (!range.is_one()) {
      out += '-';
      append_padded(out, range.high, range.first.width);
    }
  }
  if (brackets)
    out += ']';
}

}  // namespace

std::string compress_hostlist(const std::vector<std::string>& names) {
  const std::vector<NameRange> ranges = ranges_of(names);
  std::string out;
  for (std::size_t i = 0, end = 0; i < ranges.size(); i = end) {
    const NameParts& first = ranges[i].first;
    end = i + 1;
    while (first.width && end < ranges.size() && ranges[end].first.width && ranges[end].first.prefix == first.prefix)
      ++end;
    if (!out.empty())
      out += ',';
    append_group(out, std::span(ranges).subspan(i, end - i));
  }
  return out;
}

bool host_less(std::string_view a, std::string_view b) {
  const NameParts x = parts_of(a), y = parts_of(b);
  if (const int order = natural_compare(x.prefix, y.prefix))
    return order < 0;
  if ((x.width == 0) != (y.width == 0))
    return x.width == 0;
  if (x.number != y.number)
    return x.number < y.number;
  return x.width < y.width;
}

void sort_hosts(std::vector<std::string>& names) { std::sort(names.begin(), names.end(), host_less); }

bool is_word_for_nodes(std::string_view name) {
  const std::string word = lower(name);
  return word == "all" || word == "default";
}

bool is_node_name(std::string_view name) {
  constexpr std::size_t kNameMax = 59;  // "node:" and the name are a certificate's CN, which holds 64
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !name.empty() && name.size() <= kNameMax && name.find_first_not_of(kLetters) == name.npos &&
         name.find("..") == name.npos && name.front() != '-' && name.front() != '.' && name.back() != '.';
}

}  // namespace lockstep
