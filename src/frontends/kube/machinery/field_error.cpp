#include "frontends/kube/machinery/field_error.h"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>

#include "base/text.h"

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

// The length of the UTF-8 sequence that starts here, 0 if it is none.
std::size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size())
    return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
      return 0;
  return length;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const char c = text[0];
    if (length > 1) {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
      continue;
    }
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\a': out += "\\a"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\v': out += "\\v"; break;
      default:
        if (length == 0 || static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += format("\\x{:02x}", static_cast<unsigned char>(c));
        else
          out += c;
    }
    text.remove_prefix(1);
  }
  return out += '"';
}

std::string_view reason_word(FieldError::Type type) { return words_of_error(type).reason; }

std::string FieldError::body() const {
  std::string out(words_of_error(type).title);
  if (shows_value(type) && value) {
    out += ": ";
    if (value->is_string())
      out += quoted(value->get_string());
    else
      out += json::serialize(*value);
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
