// Interval sets: see the header. Lookups are binary searches; changes move at most the intervals behind the place.
#include "base/interval_set.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kIntervalsMax = 100'000;  // parsed from text; "0-4000000000:2" is refused, not expanded

// The first interval that ends at or after value.
template <class Parts>
auto first_reaching(Parts& parts, std::uint64_t value) {
  return std::lower_bound(parts.begin(), parts.end(), value,
                          [](const Interval& part, std::uint64_t v) { return part.high < v; });
}

// Takes the decimal number at the front of text away; false if there is none or it does not fit.
bool take_number(std::string_view& text, std::uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{})
    return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_char(std::string_view& text, char c) {
  if (text.empty() || text.front() != c)
    return false;
  text.remove_prefix(1);
  return true;
}

Error refused(std::string_view text, std::string_view why) {
  constexpr std::size_t kShown = 80;
  return invalid(format("\"{}{}\" is not a list of numbers like \"0-7,12,20-40:4\": {}", text.substr(0, kShown),
                        text.size() > kShown ? "…" : "", why));
}

void append_number(std::string& out, std::uint32_t value) {
  char digits[10];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

}  // namespace

namespace {

// "7", "0-7" or "0-7:2" at the front of the text.
struct Part {
  Interval all;
  std::uint32_t step = 1;
};

// The part at the front of `rest`, which is what is left of `text`.
Result<Part> take_part(std::string_view text, std::string_view& rest) {
  const auto no_number = [&] { return refused(text, format("no number at column {}", text.size() - rest.size() + 1)); };
  Part part;
  if (!take_number(rest, part.all.low))
    return no_number();
  part.all.high = part.all.low;
  if (!take_char(rest, '-'))
    return part;
  if (!take_number(rest, part.all.high))
    return no_number();
  if (part.all.high < part.all.low)
    return refused(text, format("{}-{} runs backwards", part.all.low, part.all.high));
  if (take_char(rest, ':') && (!take_number(rest, part.step) || part.step == 0))
    return refused(text, "a step is a number of at least 1");
  return part;
}

// No more than one above what is allowed, however many there would be.
void add_intervals(std::vector<Interval>& found, const Part& part) {
  if (part.step == 1) {
    found.push_back(part.all);
    return;
  }
  for (std::uint64_t value = part.all.low; value <= part.all.high && found.size() <= kIntervalsMax; value += part.step)
    found.push_back({static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value)});
}

}  // namespace

Result<IntervalSet> IntervalSet::parse(std::string_view text) {
  std::vector<Interval> found;
  std::string_view rest = text;
  do {
    add_intervals(found, TRY(take_part(text, rest)));
    if (found.size() > kIntervalsMax)
      return refused(text, format("more than {} separate ranges", kIntervalsMax));
  } while (take_char(rest, ','));
  if (!rest.empty())
    return refused(text, format("unexpected text at column {}", text.size() - rest.size() + 1));

  std::sort(found.begin(), found.end(), [](const Interval& a, const Interval& b) { return a.low < b.low; });
  IntervalSet set;
  for (const Interval& part : found) {
    if (!set.parts_.empty() && part.low <= std::uint64_t{set.parts_.back().high} + 1)
      set.parts_.back().high = std::max(set.parts_.back().high, part.high);
    else
      set.parts_.push_back(part);
  }
  return set;
}

void IntervalSet::insert(std::uint32_t low, std::uint32_t high) {
  CHECK(low <= high);
  // Everything that overlaps or touches [low, high] melts into one interval.
  auto first = first_reaching(parts_, low == 0 ? 0 : low - 1);
  auto last = first;
  while (last != parts_.end() && last->low <= std::uint64_t{high} + 1) {
    low = std::min(low, last->low);
    high = std::max(high, last->high);
    ++last;
  }
  if (first == last) {
    parts_.insert(first, {low, high});
  } else {
    *first = {low, high};
    parts_.erase(first + 1, last);
  }
}

void IntervalSet::erase(std::uint32_t low, std::uint32_t high) {
  CHECK(low <= high);
  auto first = first_reaching(parts_, low);
  if (first == parts_.end() || first->low > high)
    return;
  if (first->low < low && first->high > high) {  // a hole inside one interval
    const Interval tail{high + 1, first->high};
    first->high = low - 1;
    parts_.insert(first + 1, tail);
    return;
  }
  if (first->low < low) {
    first->high = low - 1;
    ++first;
  }
  auto last = first;
  while (last != parts_.end() && last->high <= high) ++last;
  if (last != parts_.end() && last->low <= high)
    last->low = high + 1;
  parts_.erase(first, last);
}

bool IntervalSet::contains(std::uint32_t value) const {
  const auto at = first_reaching(parts_, value);
  return at != parts_.end() && at->low <= value;
}

std::uint64_t IntervalSet::size() const {
  std::uint64_t n = 0;
  for (const Interval& part : parts_) n += std::uint64_t{part.high} - part.low + 1;
  return n;
}

std::uint32_t IntervalSet::front() const {
  CHECK(!parts_.empty());
  return parts_.front().low;
}

std::uint32_t IntervalSet::back() const {
  CHECK(!parts_.empty());
  return parts_.back().high;
}

std::string IntervalSet::text() const {
  std::string out;
  for (const Interval& part : parts_) {
    if (!out.empty())
      out += ',';
    append_number(out, part.low);
    if (part.high != part.low) {
      out += '-';
      append_number(out, part.high);
    }
  }
  return out;
}

}  // namespace lockstep
