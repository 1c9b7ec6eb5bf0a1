#include "frontends/kube/machinery/field_error.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "frontends/kube/machinery/field_set.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube {
namespace {

struct ErrorWords {
  std::string_view reason, title;
};
constexpr std::array kErrorWords{
    ErrorWords{"FieldValueNotFound", "Not found"},
    ErrorWords{"FieldValueRequired", "Required value"},
    ErrorWords{"FieldValueDuplicate", "Duplicate value"},
    ErrorWords{"FieldValueInvalid", "Invalid value"},
    ErrorWords{"FieldValueNotSupported", "Unsupported value"},
    ErrorWords{"FieldValueForbidden", "Forbidden"},
    ErrorWords{"FieldValueTooLong", "Too long"},
    ErrorWords{"FieldValueTooMany", "Too many"},
    ErrorWords{"FieldValueTypeInvalid", "Invalid value"},
    ErrorWords{"InternalError", "Internal error"},
};

const ErrorWords& words_of_error(FieldError::Type type) { return kErrorWords[static_cast<std::size_t>(type)]; }

bool shows_value(FieldError::Type type) {
  using enum FieldError::Type;
  return type != kRequired && type != kForbidden && type != kTooLong && type != kInternal;
}

}  // namespace

std::string_view reason_word(FieldError::Type type) { return words_of_error(type).reason; }

std::string FieldError::body() const {
  std::string out(words_of_error(type).title);
  if (shows_value(type) && value) {
    out += ": ";
    if (value->is_string())
      out += quoted(value->get_string());
    else
      out += canonical_text(*value);  // numbers as the real server prints them
  }
  if (!detail.empty())
    out += ": " + detail;
  return out;
}

std::string FieldError::text() const { return path + ": " + body(); }

FieldError field_required(std::string path, std::string detail) {
  return {std::move(path), FieldError::Type::kRequired, std::nullopt, std::move(detail)};
}
FieldError field_invalid(std::string path, json::value value, std::string detail) {
  return {std::move(path), FieldError::Type::kInvalid, std::move(value), std::move(detail)};
}
FieldError field_type_invalid(std::string path, json::value value, std::string detail) {
  return {std::move(path), FieldError::Type::kTypeInvalid, std::move(value), std::move(detail)};
}
FieldError field_forbidden(std::string path, std::string detail) {
  return {std::move(path), FieldError::Type::kForbidden, std::nullopt, std::move(detail)};
}
FieldError field_duplicate(std::string path, json::value value) {
  return {std::move(path), FieldError::Type::kDuplicate, std::move(value), {}};
}
FieldError field_not_found(std::string path, json::value value) {
  return {std::move(path), FieldError::Type::kNotFound, std::move(value), {}};
}
FieldError field_not_supported(std::string path, json::value value, std::span<const std::string> supported) {
  std::string detail;
  for (const std::string& word : supported) detail += (detail.empty() ? "supported values: " : ", ") + quoted(word);
  return {std::move(path), FieldError::Type::kNotSupported, std::move(value), std::move(detail)};
}
FieldError field_too_long(std::string path, std::size_t bytes_max) {
  return {std::move(path), FieldError::Type::kTooLong, std::nullopt,
          format("may not be more than {} {}", bytes_max, bytes_max == 1 ? "byte" : "bytes")};
}
FieldError field_too_many(std::string path, std::size_t count, std::size_t count_max) {
  return {std::move(path), FieldError::Type::kTooMany, json::value(count),
          format("must have at most {} {}", count_max, count_max == 1 ? "item" : "items")};
}

std::string joined_text(const FieldErrors& errors) {
  std::vector<std::string> texts;
  for (const FieldError& error : errors)
    if (std::string text = error.text(); std::ranges::find(texts, text) == texts.end())
      texts.push_back(std::move(text));
  if (texts.size() == 1)
    return texts[0];
  return texts.empty() ? std::string() : "[" + join(texts, ", ") + "]";
}

}  // namespace lockstep::kube
