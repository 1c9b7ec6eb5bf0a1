// PmixInfo: a list of PMIx attributes, with the memory of what they name.
#pragma once

#include <pmix_common.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace lockstep {

class PmixInfo {
 public:
  void text(const char* key, std::string value);
  void number32(const char* key, std::uint32_t value);
  void number16(const char* key, std::uint16_t value);
  void rank(const char* key, std::uint32_t value);
  void flag(const char* key, bool value);
  void list(const char* key, PmixInfo value);
  // Lives until the next change.
  pmix_info_t* data() { return items_.data(); }
  std::size_t size() const { return items_.size(); }

 private:
  pmix_value_t& add(const char* key, pmix_data_type_t type);

  std::vector<pmix_info_t> items_;
  std::deque<std::string> texts_;  // addresses stay
  std::deque<PmixInfo> lists_;
  std::deque<pmix_data_array_t> arrays_;
};

}  // namespace lockstep
