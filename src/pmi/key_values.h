// PmiKeyValues: what the ranks of a world tell each other, as one node knows it: what it has heard from all, what its
// own ranks have said since the last exchange, and what the ranks here tell only each other.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

namespace lockstep {

class PmiKeyValues {
 public:
  static constexpr std::size_t kMost = 64 << 20;  // bytes, of all of it

  bool put(const std::string& key, const std::string& value);  // false: there is no room for it
  const std::string* get(const std::string& key) const;        // what the ranks here have said they see at once
  std::string take_said();                                     // for the others
  bool merge(std::string_view said);                           // of the others; false: it is not what take_said() made

  bool put_here(const std::string& key, const std::string& value);
  const std::string* get_here(const std::string& key) const;

 private:
  bool has_room(std::size_t bytes);

  std::unordered_map<std::string, std::string> known_;
  std::map<std::string, std::string> said_, here_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
