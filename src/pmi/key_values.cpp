#include "pmi/key_values.h"

#include "pmi/bytes.h"

namespace lockstep {

bool PmiKeyValues::has_room(std::size_t bytes) {
  if (bytes > kMost - bytes_)
    return false;
  bytes_ += bytes;
  return true;
}

bool PmiKeyValues::put(const std::string& key, const std::string& value) {
  if (!has_room(2 * (key.size() + value.size()) + 1))
    return false;
  known_[key] = value;
  said_[key] = value;
  return true;
}

const std::string* PmiKeyValues::get(const std::string& key) const {
  const auto at = known_.find(key);
  return at == known_.end() ? nullptr : &at->second;
}

std::string PmiKeyValues::take_said() {
  PmiWriter out;
  for (const auto& [key, value] : said_) out.text(key).text(value);
  said_.clear();
  return out.take();
}

bool PmiKeyValues::merge(std::string_view said) {
  PmiReader in(said);
  while (in.good() && !in.at_end()) {
    std::string key = in.text(), value = in.text();
    if (!in.good() || !has_room(key.size() + value.size() + 1))
      return false;
    known_[std::move(key)] = std::move(value);
  }
  return in.good();
}

bool PmiKeyValues::put_here(const std::string& key, const std::string& value) {
  if (!has_room(key.size() + value.size() + 1))
    return false;
  here_[key] = value;
  return true;
}

const std::string* PmiKeyValues::get_here(const std::string& key) const {
  const auto at = here_.find(key);
  return at == here_.end() ? nullptr : &at->second;
}

}  // namespace lockstep
