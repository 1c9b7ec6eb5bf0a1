// What patches, field sets and validation ask of JSON values: equality as Kubernetes sees it, size and depth.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::kube {

namespace json = boost::json;

// No object is deeper than this. Bodies are parsed under the limit; a patch that would make a deeper one is refused.
inline constexpr std::size_t kDepthMax = 200;

// JSON that others wrote: no deeper than kDepthMax, and without numbers beyond a double's range, which no text of ours
// could tell again.
Result<json::value> parse_given(std::string_view text, std::size_t depth_max = kDepthMax);

// Numbers are equal by value (1 and 1.0), objects in whatever order their keys come.
bool same_json(const json::value& a, const json::value& b);

std::size_t depth_of(const json::value& value);  // 1 for a scalar; of parsed values only: it recurses
std::size_t nodes_of(const json::value& value);  // values in it, itself included

// Members in the order of their names, at every depth: as Go writes maps, and so whatever no type of its own describes.
void sort_members(json::object& object);

bool is_number(const json::value& value);
double number_of(const json::value& value);  // 0 for what is none

// As Go's encoding/json and its %v for a number write it: no exponent below 1e21, the shortest digits that read back.
std::string number_text(const json::value& value);

std::string_view text_of(const json::value& value);  // "" for what is no text
// Members of a value or of an object, which is not copied for it.
const json::value* member(const json::value& value, std::string_view key);  // null: no object, or no such key
const json::value* member(const json::object& object, std::string_view key);
const json::object* member_object(const json::value& value, std::string_view key);
const json::object* member_object(const json::object& object, std::string_view key);
const json::array* member_array(const json::value& value, std::string_view key);
const json::array* member_array(const json::object& object, std::string_view key);
const json::value& part(const json::value& value, std::string_view key);  // null where there is none
const json::value& part(const json::object& object, std::string_view key);
std::string text_in(const json::value& value, std::string_view key);  // "" for what is no text
std::string text_in(const json::object& object, std::string_view key);
json::object& object_at(json::object& object, std::string_view key);  // made, or made empty, where there is none

// Drops the members that `unwanted` picks, in one pass, and keeps the order of the others.
template <class Unwanted>
void drop_members(json::object& object, Unwanted unwanted) {
  bool any = false;
  for (const auto& entry : object) any = any || unwanted(entry.key(), entry.value());
  if (!any)
    return;
  json::object kept(object.storage());
  kept.reserve(object.size());
  for (auto& entry : object)
    if (!unwanted(entry.key(), entry.value()))
      kept.emplace(entry.key(), std::move(entry.value()));
  object = std::move(kept);
}

}  // namespace lockstep::kube
