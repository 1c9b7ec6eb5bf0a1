// The items of a list between commas, as Slurm reads one: an item that is empty is none, so "a,,b," has two.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace lockstep {

inline std::vector<std::string> items_of(std::string_view list, char separator = ',') {
  std::vector<std::string> items = split(list, separator);
  std::erase(items, "");
  return items;
}

}  // namespace lockstep
