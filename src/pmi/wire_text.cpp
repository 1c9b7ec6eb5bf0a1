#include "pmi/wire_text.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kLengthChars = 6;
constexpr std::string_view kValue = "value=";

}  // namespace

const std::string* PmiWords::find(std::string_view name) const {
  const auto at = std::find_if(words_.begin(), words_.end(), [&](const auto& word) { return word.first == name; });
  return at == words_.end() ? nullptr : &at->second;
}

std::string PmiWords::text(std::string_view name) const {
  const std::string* found = find(name);
  return found ? *found : std::string();
}

const std::string& PmiWords::cmd() const {
  static const std::string kNone;
  return words_.empty() ? kNone : words_.front().second;
}

PmiWords parse_pmi1(std::string_view line) {
  PmiWords words;
  while (!line.empty()) {
    line = line.substr(std::min(line.size(), line.find_first_not_of(" \t\r")));
    // A value goes on to the end of its line, blanks and all.
    const bool is_last = line.starts_with(kValue);
    const std::string_view word = is_last ? line : line.substr(0, line.find_first_of(" \t\r"));
    line.remove_prefix(word.size());
    if (word.empty())
      continue;
    const auto equals = word.find('=');
    words.add(std::string(word.substr(0, equals)),
              equals == word.npos ? std::string() : std::string(word.substr(equals + 1)));
  }
  return words;
}

PmiWords parse_pmi2(std::string_view text) {
  PmiWords words;
  while (!text.empty()) {
    const auto equals = text.find('=');
    if (equals == text.npos)
      break;
    std::string name(text.substr(0, equals)), value;
    text.remove_prefix(equals + 1);
    std::size_t i = 0;
    for (; i < text.size(); ++i) {
      if (text[i] == ';' && (i + 1 == text.size() || text[i + 1] != ';'))
        break;
      i += text[i] == ';';
      value.push_back(text[i]);
    }
    text.remove_prefix(std::min(text.size(), i + 1));
    words.add(std::move(name), std::move(value));
  }
  return words;
}

std::string encode_pmi1(const PmiWords& words) {
  std::string out;
  for (const auto& [name, value] : words.all()) out += (out.empty() ? "" : " ") + name + "=" + value;
  return out + "\n";
}

std::string encode_pmi2(const PmiWords& words) {
  std::string body;
  for (const auto& [name, value] : words.all()) {
    body += name + "=";
    for (const char c : value) body.append(c == ';' ? 2 : 1, c);
    body += ";";
  }
  return format("{:>{}}", body.size(), kLengthChars) + body;
}

Result<std::optional<PmiWords>> PmiCutter::next() {
  if (!second_) {
    const auto end = pending_.find('\n');
    if (end == pending_.npos && pending_.size() <= kPmiLineMax)
      return std::optional<PmiWords>();
    if (end == pending_.npos || end > kPmiLineMax)
      return invalid(format("a line of more than {} bytes", kPmiLineMax));
    PmiWords words = parse_pmi1(std::string_view(pending_).substr(0, end));
    pending_.erase(0, end + 1);
    return std::optional(std::move(words));
  }
  if (pending_.size() < kLengthChars)
    return std::optional<PmiWords>();
  const auto size = parse_uint(trim(std::string_view(pending_).substr(0, kLengthChars)));
  if (!size || *size > kPmiLineMax)
    return invalid("a command without its length");
  if (pending_.size() - kLengthChars < *size)
    return std::optional<PmiWords>();
  PmiWords words = parse_pmi2(std::string_view(pending_).substr(kLengthChars, *size));
  pending_.erase(0, kLengthChars + *size);
  return std::optional(std::move(words));
}

}  // namespace lockstep
