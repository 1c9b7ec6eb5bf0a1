// How much a JSON text holds, counted without a tree: the price of reading it is known before anything is paid.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::kube {

// No body has more values than this: a tree of it takes some ten megabytes.
inline constexpr std::size_t kValuesMax = 100'000;

struct JsonExtent {
  std::size_t values = 0;  // objects, lists and scalars, each with all its members
  std::size_t depth = 0;   // of objects and lists within each other
  std::size_t lines = 0;   // ends of lines outside of strings: what YAML has instead of commas
};
// Of a text that is none of JSON: at most as much as a text of its length can hold. One pass, some gigabytes a minute.
JsonExtent extent_of(std::string_view text);

}  // namespace lockstep::kube
