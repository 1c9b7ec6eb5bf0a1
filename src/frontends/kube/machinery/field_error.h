// What is wrong with one field of an object, in the words that Kubernetes' clients and tests know.
//
//   spec.containers[0].name: Invalid value: "A": must consist of …
//
// Words and their use follow k8s.io/apimachinery's package "field".
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

namespace json = boost::json;

struct FieldError {
  enum class Type : unsigned char {
    kNotFound,      // names something that is not there
    kRequired,      // empty or absent
    kDuplicate,     // once too often
    kInvalid,       // malformed or out of bounds
    kNotSupported,  // not one of the known words
    kForbidden,     // well formed, but not allowed here
    kTooLong,
    kTooMany,
    kTypeInvalid,  // a text where a number belongs
    kInternal,
  };

  std::string path;  // "spec.containers[0].name", "metadata.labels"
  Type type = Type::kInvalid;
  std::optional<json::value> value;  // the offending one; absent: it is not shown
  std::string detail;                // "must be greater than or equal to 0"; may be empty

  std::string body() const;  // `Invalid value: "A": detail`: the message of a cause in a Status
  std::string text() const;  // `path: body`
};
using FieldErrors = std::vector<FieldError>;

// The reason of a cause in a Status: "FieldValueInvalid", "FieldValueRequired", …
std::string_view reason_word(FieldError::Type type);

FieldError field_required(std::string path, std::string detail = {});
FieldError field_invalid(std::string path, json::value value, std::string detail);
FieldError field_type_invalid(std::string path, json::value value, std::string detail);
FieldError field_forbidden(std::string path, std::string detail);
FieldError field_duplicate(std::string path, json::value value);
FieldError field_not_found(std::string path, json::value value);
FieldError field_not_supported(std::string path, json::value value, std::span<const std::string> supported);
FieldError field_too_long(std::string path, std::size_t bytes_max);
FieldError field_too_many(std::string path, std::size_t count, std::size_t count_max);

// All of them as the message of a refusal: the only one's text, or `[first, second]`. Each different text appears once.
std::string joined_text(const FieldErrors& errors);

}  // namespace lockstep::kube
