#include "wire/json_text.h"

#include <cmath>

#include "base/check.h"
#include "wire/json.h"

namespace lockstep {

void JsonText::before_value() {
  if (need_comma_)
    out_ += ',';
  need_comma_ = true;
}

JsonText& JsonText::open(char opening, char closing) {
  before_value();
  out_ += opening;
  closing_.push_back(closing);
  need_comma_ = false;
  return *this;
}

JsonText& JsonText::end() {
  CHECK(!closing_.empty());
  out_ += closing_.back();
  closing_.pop_back();
  need_comma_ = true;
  return *this;
}

JsonText& JsonText::key(std::string_view name) {
  before_value();
  wire::append_string(out_, name);
  out_ += ':';
  need_comma_ = false;
  return *this;
}

JsonText& JsonText::value(std::string_view text) {
  before_value();
  wire::append_string(out_, text);
  return *this;
}

JsonText& JsonText::value(bool b) { return raw(b ? "true" : "false"); }

JsonText& JsonText::value(double number) {
  if (!std::isfinite(number))
    return raw("null");  // JSON has no word for it
  before_value();
  wire::append_number(out_, number);
  return *this;
}

JsonText& JsonText::signed_number(std::int64_t number) {
  before_value();
  wire::append_number(out_, number);
  return *this;
}

JsonText& JsonText::unsigned_number(std::uint64_t number) {
  before_value();
  wire::append_number(out_, number);
  return *this;
}

JsonText& JsonText::raw(std::string_view json) {
  before_value();
  out_ += json;
  return *this;
}

std::string JsonText::take() {
  CHECK(closing_.empty(), "an object or list is still open");
  need_comma_ = false;
  return std::move(out_);
}

}  // namespace lockstep
