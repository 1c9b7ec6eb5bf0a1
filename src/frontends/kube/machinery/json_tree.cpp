#include "frontends/kube/machinery/json_tree.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <charconv>
#include <cmath>
#include <vector>

namespace lockstep::kube {

namespace {

bool is_told(const json::value& value) {
  if (value.is_double())
    return std::isfinite(value.get_double());
  if (value.is_array())
    return std::ranges::all_of(value.get_array(), is_told);
  return !value.is_object() ||
         std::ranges::all_of(value.get_object(), [](const auto& entry) { return is_told(entry.value()); });
}

void sort_members_in(json::value& value) {
  if (json::object* object = value.if_object())
    return sort_members(*object);
  if (json::array* array = value.if_array())
    for (json::value& one : *array) sort_members_in(one);
}

}  // namespace

void sort_members(json::object& object) {
  const auto by_name = [](const auto& a, const auto& b) { return a.key() < b.key(); };
  if (!std::ranges::is_sorted(object, by_name)) {
    std::vector<json::key_value_pair*> members;
    members.reserve(object.size());
    for (json::key_value_pair& member : object) members.push_back(&member);
    std::ranges::sort(members, [&](const auto* a, const auto* b) { return by_name(*a, *b); });
    json::object sorted(object.storage());
    sorted.reserve(object.size());
    for (json::key_value_pair* member : members) sorted.emplace(member->key(), std::move(member->value()));
    object = std::move(sorted);
  }
  for (json::key_value_pair& member : object) sort_members_in(member.value());
}

Result<json::value> parse_given(std::string_view text, std::size_t depth_max) {
  json::parse_options options;
  options.max_depth = depth_max;
  json::error_code failed;
  json::value value = json::parse({text.data(), text.size()}, failed, {}, options);
  if (failed)
    return invalid(failed.message());
  if (!is_told(value))
    return invalid("a number is beyond the range of float64");
  return value;
}

bool is_number(const json::value& value) { return value.is_int64() || value.is_uint64() || value.is_double(); }

double number_of(const json::value& value) {
  if (value.is_int64())
    return static_cast<double>(value.get_int64());
  if (value.is_uint64())
    return static_cast<double>(value.get_uint64());
  return value.is_double() ? value.get_double() : 0;
}

bool same_json(const json::value& a, const json::value& b) {
  if (is_number(a) && is_number(b)) {
    if (a.is_double() || b.is_double())
      return number_of(a) == number_of(b);
    return a == b;
  }
  if (a.kind() != b.kind())
    return false;
  if (a.is_array()) {
    const json::array &left = a.get_array(), &right = b.get_array();
    return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin(), same_json);
  }
  if (a.is_object()) {
    const json::object &left = a.get_object(), &right = b.get_object();
    return left.size() == right.size() && std::ranges::all_of(left, [&](const auto& entry) {
             const json::value* other = right.if_contains(entry.key());
             return other != nullptr && same_json(entry.value(), *other);
           });
  }
  return a == b;
}

std::size_t depth_of(const json::value& value) {
  std::size_t below = 0;
  if (value.is_array())
    for (const json::value& each : value.get_array()) below = std::max(below, depth_of(each));
  else if (value.is_object())
    for (const auto& entry : value.get_object()) below = std::max(below, depth_of(entry.value()));
  return below + 1;
}

std::size_t nodes_of(const json::value& value) {
  std::size_t count = 1;
  if (value.is_array())
    for (const json::value& each : value.get_array()) count += nodes_of(each);
  else if (value.is_object())
    for (const auto& entry : value.get_object()) count += nodes_of(entry.value());
  return count;
}

std::string number_text(const json::value& value) {
  char out[64];
  if (value.is_int64())
    return {out, std::to_chars(out, out + sizeof out, value.get_int64()).ptr};
  if (value.is_uint64())
    return {out, std::to_chars(out, out + sizeof out, value.get_uint64()).ptr};
  const double number = number_of(value);
  const double size = std::fabs(number);
  const bool plain = size == 0 || (size >= 1e-6 && size < 1e21);
  if (!std::isfinite(number))  // parse_given() lets none in; what is written must be read again, whatever it is
    return std::isnan(number) ? "0" : number > 0 ? "1.7976931348623157e+308" : "-1.7976931348623157e+308";
  const auto end =
      std::to_chars(out, out + sizeof out, number, plain ? std::chars_format::fixed : std::chars_format::scientific);
  return {out, end.ptr};
}

std::string_view text_of(const json::value& value) {
  return value.is_string() ? std::string_view(value.get_string()) : std::string_view();
}

namespace {

const json::value kNothing;

const json::object* object_in(const json::value* found) { return found == nullptr ? nullptr : found->if_object(); }
const json::array* array_in(const json::value* found) { return found == nullptr ? nullptr : found->if_array(); }
const json::value& value_in(const json::value* found) { return found == nullptr ? kNothing : *found; }

}  // namespace

const json::value* member(const json::value& value, std::string_view key) {
  return value.is_object() ? value.get_object().if_contains(key) : nullptr;
}
const json::value* member(const json::object& object, std::string_view key) { return object.if_contains(key); }

const json::object* member_object(const json::value& value, std::string_view key) {
  return object_in(member(value, key));
}
const json::object* member_object(const json::object& object, std::string_view key) {
  return object_in(member(object, key));
}

const json::array* member_array(const json::value& value, std::string_view key) { return array_in(member(value, key)); }
const json::array* member_array(const json::object& object, std::string_view key) {
  return array_in(member(object, key));
}

const json::value& part(const json::value& value, std::string_view key) { return value_in(member(value, key)); }
const json::value& part(const json::object& object, std::string_view key) { return value_in(member(object, key)); }

std::string text_in(const json::value& value, std::string_view key) { return std::string(text_of(part(value, key))); }
std::string text_in(const json::object& object, std::string_view key) {
  return std::string(text_of(part(object, key)));
}

json::object& object_at(json::object& object, std::string_view key) {
  json::value& value = object[key];
  return value.is_object() ? value.get_object() : value.emplace_object();
}

}  // namespace lockstep::kube
