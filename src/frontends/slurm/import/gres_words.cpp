#include "frontends/slurm/import/gres_words.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "model/bounds.h"

namespace lockstep::slurm {

namespace {

// Without "(S:0-1)", which may hold commas.
std::string without_places(const std::string& text) {
  std::string out;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : 0;
    if (depth == 0)
      out += c;
    depth -= c == ')' && depth > 0 ? 1 : 0;
  }
  return out;
}

// "8", and "2K" for 2048, as in Slurm.
std::optional<std::uint64_t> count_of(const std::string& text) {
  constexpr std::string_view kSuffixes = "kmg";
  const std::size_t power = text.size() < 2 ? kSuffixes.npos : kSuffixes.find(lower(text).back());
  if (power == kSuffixes.npos)
    return parse_uint(text);
  const auto number = parse_uint(std::string_view(text).substr(0, text.size() - 1));
  if (!number || *number > kAmountMax)
    return number;
  return *number << (10 * (power + 1));
}

}  // namespace

Result<GresWords> gres_words(const std::string& text) {
  GresWords out;
  for (const std::string& word : split(without_places(text), ',')) {
    std::vector<std::string> parts = split(word, ':');
    if (parts.empty() || lower(word) == "none")
      continue;
    const std::string kind = lower(parts.front());
    if (kind != "gpu" && kind != "gres/gpu") {
      out.others.push_back(word);
      continue;
    }
    std::uint64_t count = 1;
    if (parts.size() > 1)
      if (const auto number = count_of(parts.back())) {
        count = *number;
        parts.pop_back();
      }
    if (count > kAmountMax - out.gpus)
      return invalid(format("\"{}\": more GPUs than {}", word, kAmountMax));
    out.gpus += static_cast<std::uint32_t>(count);
    // "gpu:tesla:no_consume:2" has a flag that is no type.
    if (parts.size() > 1 && parts[1] != "no_consume")
      if (const std::string type = lower(parts[1]);
          std::find(out.types.begin(), out.types.end(), type) == out.types.end())
        out.types.push_back(type);
  }
  return out;
}

}  // namespace lockstep::slurm
