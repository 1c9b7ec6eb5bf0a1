// What tables of records by key do with a question. Used inside model only.
#pragma once

#include "model/change.h"

namespace lockstep {

// Null when absent.
template <class Map, class K>
auto find_ref(const Map& map, const K& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : it->second.get();
}

}  // namespace lockstep
