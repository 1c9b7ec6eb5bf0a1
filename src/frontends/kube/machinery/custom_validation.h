// What a custom resource's definition demands of its objects beside their structure: bounds, patterns, words, formats,
// alternatives, lists without doubles. Wording follows the real server's ("spec.x in body should be less than …").
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/machinery/schema.h"

namespace re2 {
class RE2;
}

namespace lockstep::kube {

inline constexpr std::size_t kCustomErrorsMax = 100;
inline constexpr std::size_t kPatternMax = 4096;         // bytes of a regular expression
inline constexpr std::int64_t kPatternMemory = 1 << 20;  // bytes that a compiled one may take

// Compiled regular expressions of the syntax of Go and RE2, which match in time linear in the text.
class Patterns {
 public:
  Patterns();
  ~Patterns();
  Patterns(Patterns&&) noexcept;
  Patterns& operator=(Patterns&&) noexcept;

  std::string add(const std::string& pattern);                            // what is wrong with it; empty: it is kept
  bool matches(const std::string& pattern, std::string_view text) const;  // of one that was added; else true

 private:
  std::unordered_map<std::string, std::unique_ptr<re2::RE2>> compiled_;
};

// Adds every pattern that the schema's rules name.
void add_patterns(const Schema& schema, Patterns& patterns);

// At most kCustomErrorsMax faults; none: the value is valid. `value` is pruned and has its defaults. metadata is not
// looked at: it is checked like any object's. old: what an update replaces. Parts that are as they were may stay so,
// whatever the schema says by now: a definition that became stricter does not hold up who changes something else.
FieldErrors validate_custom(const json::value& value, const Schema& schema, const Patterns& patterns,
                            const json::value* old = nullptr);

// Which element of an older list each one of a newer list goes on from: only keys tell.
class PastElements {
 public:
  PastElements(const json::value* old, const Schema& schema);  // null: there is no older one
  const json::value* of(const json::value& now) const;         // null: it is new

 private:
  std::string key_of(const json::value& element) const;

  const Schema& schema_;
  std::unordered_map<std::string, const json::value*> by_key_;
};

// Does the text keep to the format? Formats that are not known are kept by every text.
bool keeps_format(std::string_view format, std::string_view text);

}  // namespace lockstep::kube
