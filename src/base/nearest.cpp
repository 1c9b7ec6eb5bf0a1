#include "base/nearest.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kWordMax = 40;  // of a longer one nobody guesses what it was to be

// Letters that are put in, left out, exchanged, or swapped with their neighbour.
std::size_t changes(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  if (word.empty() || word.size() > kWordMax)
    return best;
  std::size_t fewest = 1 + word.size() / 3;
  for (const std::string_view one : known) {
    if (one.size() > kWordMax)
      continue;
    const bool begins = word.size() >= 3 && (one.starts_with(word) || word.starts_with(one));
    const std::size_t count = begins ? 1 : changes(word, one);
    if (count < fewest) {
      fewest = count;
      best = one;
    }
  }
  return best;
}

std::string hint(std::string_view word, std::span<const std::string_view> known) {
  if (const std::string_view near = nearest(word, known); !near.empty())
    return format(": did you mean \"{}\"?", near);
  std::string out;
  for (const std::string_view one : known) (out += out.empty() ? "; known are: " : ", ") += one;
  return out.empty() ? "; there are none" : out;
}

}  // namespace lockstep
