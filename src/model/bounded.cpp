#include "model/bounded.h"

#include "base/characters.h"

namespace lockstep::bounded {

namespace {

std::optional<Fault> too_long(std::size_t bytes, std::size_t most) {
  if (bytes <= most)
    return {};
  return Fault{{}, format("has {} bytes; {} are allowed", bytes, most)};
}

std::optional<Fault> too_long_together(std::size_t bytes, std::size_t most) {
  if (bytes <= most)
    return {};
  return Fault{{}, format("has {} bytes together; {} are allowed", bytes, most)};
}

std::optional<Fault> wrong_character(std::string_view text, Characters allowed) {
  if (allowed == Characters::kAny)
    return {};
  const auto code = control_character_in(text, allowed == Characters::kText ? "\n\t" : "");
  if (!code)
    return {};
  return Fault{{}, format("holds a control character (code {}): leave it out", *code)};
}

}  // namespace

Fault too_many(std::size_t count, std::size_t most) {
  return {{}, format("has {} entries; {} are allowed", count, most)};
}

std::optional<Fault> Text::refuses_some(std::string_view text) const {
  if (auto fault = too_long(text.size(), bytes_max))
    return fault;
  return wrong_character(text, characters);
}

std::optional<Fault> Texts::refuses(const std::vector<std::string>& list) const {
  if (list.size() > entries_max)
    return too_many(list.size(), entries_max);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (auto fault = each.refuses(list[i]))
      return Fault{format("[{}]", i), std::move(fault->why)};
    bytes += list[i].size();
  }
  return too_long_together(bytes, bytes_max);
}

std::optional<Fault> Pairs::refuses(const std::vector<std::pair<std::string, std::string>>& list) const {
  if (list.size() > entries_max)
    return too_many(list.size(), entries_max);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto fault = wrong_character(list[i].first, Characters::kName);
    if (!fault)
      fault = wrong_character(list[i].second, texts);
    if (fault)
      return Fault{format("[{}]", i), std::move(fault->why)};
    bytes += list[i].first.size() + list[i].second.size();
  }
  return too_long_together(bytes, bytes_max);
}

std::optional<Fault> TextLists::refuses(const std::vector<std::vector<std::string>>& lists) const {
  std::size_t words = lists.size(), bytes = 0;
  for (const auto& list : lists) {
    words += list.size();
    for (const std::string& word : list) bytes += word.size();
  }
  if (words > entries_max)
    return too_many(words, entries_max);
  return too_long_together(bytes, bytes_max);
}

}  // namespace lockstep::bounded
