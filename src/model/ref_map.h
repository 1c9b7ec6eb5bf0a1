// What tables of records by key do with a change and a question. Used inside model only.
#pragma once

#include "model/change.h"

namespace lockstep {

template <class Map, class K, class T>
void set_or_erase(Map& map, const K& key, const Ref<T>& ref, bool removed) {
  if (removed)
    map.erase(key);
  else
    map[key] = ref;
}

// Null when absent.
template <class Map, class K>
auto find_ref(const Map& map, const K& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : it->second.get();
}

}  // namespace lockstep
