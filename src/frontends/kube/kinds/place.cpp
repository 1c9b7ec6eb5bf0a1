#include "frontends/kube/kinds/place.h"

#include <arpa/inet.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/selectors.h"

namespace lockstep::kube {

namespace {

constexpr const char* kNoAddress = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
constexpr const char* kNoCidr = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

bool is_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 || inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

bool is_cidr(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos || !is_address(text.substr(0, slash)))
    return false;
  unsigned bits = 0;
  const char *from = text.data() + slash + 1, *end = text.data() + text.size();
  const auto read = std::from_chars(from, end, bits);
  return read.ec == std::errc() && read.ptr == end && from != end && bits <= (text.find(':') == text.npos ? 32U : 128U);
}

}  // namespace

Place Place::operator[](std::string_view key) const {
  return {part(*value_, key), path_.empty() ? std::string(key) : path_ + "." + std::string(key), *out_};
}

std::vector<Place> Place::each() const {
  std::vector<Place> out;
  if (const json::array* list = value_->if_array())
    for (std::size_t i = 0; i < list->size(); ++i) out.emplace_back((*list)[i], format("{}[{}]", path_, i), *out_);
  return out;
}

Place Place::entry(std::string_view key) const { return {part(*value_, key), format("{}[{}]", path_, key), *out_}; }

std::vector<std::pair<std::string, Place>> Place::map() const {
  std::vector<std::pair<std::string, Place>> out;
  if (const json::object* map = value_->if_object())
    for (const auto& [key, value] : *map)
      out.emplace_back(std::string(key), Place(value, format("{}[{}]", path_, std::string_view(key)), *out_));
  return out;
}

bool Place::empty() const {
  return value_->is_null() || (value_->is_string() && value_->get_string().empty()) ||
         (value_->is_array() && value_->get_array().empty()) || (value_->is_object() && value_->get_object().empty());
}

std::string Place::text() const { return std::string(text_of(*value_)); }

std::optional<std::int64_t> Place::number() const {
  return value_->is_int64() ? std::optional(value_->get_int64()) : std::nullopt;
}

bool Place::flag() const { return value_->is_bool() && value_->get_bool(); }

void Place::required(std::string detail) const { out_->push_back(field_required(path_, std::move(detail))); }
void Place::invalid(std::string detail) const { out_->push_back(field_invalid(path_, *value_, std::move(detail))); }
void Place::forbidden(std::string detail) const { out_->push_back(field_forbidden(path_, std::move(detail))); }
void Place::duplicate() const { out_->push_back(field_duplicate(path_, *value_)); }
void Place::not_found() const { out_->push_back(field_not_found(path_, *value_)); }

void Place::not_supported(std::initializer_list<std::string_view> words) const {
  std::vector<std::string> known;
  for (const std::string_view word : words) known.emplace_back(word);
  out_->push_back(field_not_supported(path_, *value_, known));
}

void Place::faults(const std::vector<std::string>& details) const {
  for (const std::string& detail : details) invalid(detail);
}

void Place::at_least(std::int64_t least) const {
  if (const auto has = number(); has && *has < least)
    invalid(format("must be greater than or equal to {}", least));
}

void Place::at_most(std::int64_t most) const {
  if (const auto has = number(); has && *has > most)
    invalid(format("must be less than or equal to {}", most));
}

void Place::within(std::int64_t least, std::int64_t most) const {
  if (const auto has = number(); has && (*has < least || *has > most))
    invalid(format("must be between {} and {}, inclusive", least, most));
}

void Place::one_of(std::initializer_list<std::string_view> words) const {
  if (there() && std::ranges::find(words, text()) == words.end())
    not_supported(words);
}

void Place::port() const { within(1, UINT16_MAX); }

void Place::port_or_name() const {
  if (value_->is_string())
    return faults(port_name_faults(text()));
  port();
}

void Place::dns_label() const { faults(dns_label_faults(text())); }
void Place::dns_subdomain() const { faults(dns_subdomain_faults(text())); }
void Place::dns_1035() const { faults(dns_1035_faults(text())); }
void Place::qualified_name() const { faults(qualified_name_faults(text())); }

void Place::address() const {
  if (!is_address(text()))
    invalid(kNoAddress);
}

void Place::cidr() const {
  if (!is_cidr(text()))
    invalid(kNoCidr);
}

void Place::name() const {
  if (empty())
    return required();
  dns_subdomain();
}

void Place::needed() const {
  if (empty())
    required();
}

void Place::label_keys() const {
  for (const auto& [key, value] : map()) {
    for (const std::string& fault : qualified_name_faults(key))
      out_->push_back(field_invalid(path_, json::value(key), fault));
    for (const std::string& fault : label_value_faults(value.text()))
      out_->push_back(field_invalid(path_, value.value(), fault));
  }
}

void Place::same_as(const Place& before) const {
  if (!same_json(value(), before.value()))
    invalid("field is immutable");
}

bool check_selector(const Place& selector) {
  const std::size_t before = selector.out().size();
  selector["matchLabels"].label_keys();
  for (const Place& term : selector["matchExpressions"].each()) {
    const std::string how = term["operator"].text();
    if (how == "In" || how == "NotIn") {
      if (term["values"].empty())
        term["values"].required("must be specified when `operator` is 'In' or 'NotIn'");
    } else if (how == "Exists" || how == "DoesNotExist") {
      if (!term["values"].empty())
        term["values"].forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else {
      term["operator"].invalid("not a valid selector operator");
    }
    term["key"].qualified_name();
    for (const Place& value : term["values"].each()) value.faults(label_value_faults(value.text()));
  }
  return selector.out().size() == before;
}

std::optional<std::int64_t> percent_of(const Place& place) {
  const std::string text = place.text();
  std::int64_t out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  if (read.ec != std::errc() || out < 0 || read.ptr + 1 != text.data() + text.size() || *read.ptr != '%')
    return std::nullopt;
  return out;
}

std::optional<std::int64_t> check_count_or_percent(const Place& place) {
  if (!place.value().is_string()) {
    place.at_least(0);
    return place.number();
  }
  const auto percent = percent_of(place);
  if (!percent)
    place.invalid(
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
        "for validation is '[0-9]+%')");
  return percent;
}

std::size_t check_one_kind(const Place& holder, std::initializer_list<std::string_view> keys, const char* message) {
  std::size_t count = 0;
  for (const std::string_view key : keys)
    if (const Place one = holder[key]; one.there() && ++count > 1)
      one.forbidden(message);
  return count;
}

}  // namespace lockstep::kube
