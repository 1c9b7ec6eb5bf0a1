#include "pmi/server/pmix_info.h"

#include <cstring>

namespace lockstep {

pmix_value_t& PmixInfo::add(const char* key, pmix_data_type_t type) {
  pmix_info_t& item = items_.emplace_back();
  std::memset(&item, 0, sizeof item);
  ::strncpy(item.key, key, sizeof item.key - 1);
  item.value.type = type;
  return item.value;
}

void PmixInfo::text(const char* key, std::string value) {
  texts_.push_back(std::move(value));
  add(key, PMIX_STRING).data.string = texts_.back().data();
}

void PmixInfo::number32(const char* key, std::uint32_t value) { add(key, PMIX_UINT32).data.uint32 = value; }
void PmixInfo::number16(const char* key, std::uint16_t value) { add(key, PMIX_UINT16).data.uint16 = value; }
void PmixInfo::rank(const char* key, std::uint32_t value) { add(key, PMIX_PROC_RANK).data.rank = value; }
void PmixInfo::flag(const char* key, bool value) { add(key, PMIX_BOOL).data.flag = value; }

void PmixInfo::list(const char* key, PmixInfo value) {
  lists_.push_back(std::move(value));
  pmix_data_array_t& array = arrays_.emplace_back();
  array.type = PMIX_INFO;
  array.size = lists_.back().size();
  array.array = lists_.back().data();
  add(key, PMIX_DATA_ARRAY).data.darray = &array;
}

}  // namespace lockstep
