// A part of an object beside the path that names it ("spec.ports[2].name"), and the rules that kinds are made of.
//
// What is not there, or is of another type, breaks no rule but `required`: what a schema says is judged elsewhere.
// Faults go to one list, in the words of k8s.io/apimachinery pkg/util/validation. The tree outlives its places.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/field_error.h"

namespace lockstep::kube {

namespace json = boost::json;

class Place {
 public:
  Place(const json::value& value, std::string path, FieldErrors& out)
      : value_(&value), path_(std::move(path)), out_(&out) {}

  Place operator[](std::string_view key) const;            // "path.key"
  std::vector<Place> each() const;                         // the elements of a list: "path[0]"
  std::vector<std::pair<std::string, Place>> map() const;  // the entries of a map: "path[key]"
  Place entry(std::string_view key) const;                 // one of them

  bool there() const { return !value_->is_null(); }
  bool empty() const;  // not there, or a text, list or map of nothing
  const json::value& value() const { return *value_; }
  const std::string& path() const { return path_; }
  FieldErrors& out() const { return *out_; }
  std::string text() const;  // "" for what is no text
  std::optional<std::int64_t> number() const;
  bool flag() const;  // true, not merely there
  bool is(std::string_view word) const { return text() == word; }

  void required(std::string detail = {}) const;
  void invalid(std::string detail) const;
  void forbidden(std::string detail) const;
  void duplicate() const;
  void not_found() const;
  void not_supported(std::initializer_list<std::string_view> words) const;
  void faults(const std::vector<std::string>& details) const;  // invalid, each

  void at_least(std::int64_t least) const;
  void at_most(std::int64_t most) const;
  void within(std::int64_t least, std::int64_t most) const;
  void one_of(std::initializer_list<std::string_view> words) const;
  void port() const;          // 1 to 65535
  void port_or_name() const;  // or the name of one
  void dns_label() const;
  void dns_subdomain() const;
  void dns_1035() const;
  void qualified_name() const;
  void address() const;                     // an IP address
  void cidr() const;                        // "10.0.0.0/8"
  void name() const;                        // must be there, and a subdomain
  void needed() const;                      // must not be empty
  void label_keys() const;                  // a map of labels: keys and values
  void same_as(const Place& before) const;  // may not change

 private:
  const json::value* value_;
  std::string path_;
  FieldErrors* out_;
};

// A LabelSelector's parts. False: something is wrong with it.
bool check_selector(const Place& selector);

// A count, or a percentage of something ("25%"). The number; nothing: it is neither.
std::optional<std::int64_t> check_count_or_percent(const Place& place);
// "30%" is 30; nothing for what is no percentage.
std::optional<std::int64_t> percent_of(const Place& place);

// How many of `keys` are there; more than one: the later ones are told `message`.
std::size_t check_one_kind(const Place& holder, std::initializer_list<std::string_view> keys, const char* message);

}  // namespace lockstep::kube
