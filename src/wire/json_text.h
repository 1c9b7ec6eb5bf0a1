// JsonText: writes JSON where there is no model type to encode, as in statistics and rows. Escapes like the codecs do.
//
//   JsonText j;
//   j.object().field("name", node.name).field("cores", 8).key("jobs").array().value(1).value(2).end().end();
//   j.take()  // {"name":"n1","cores":8,"jobs":[1,2]}
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class JsonText {
 public:
  JsonText& object() { return open('{', '}'); }
  JsonText& array() { return open('[', ']'); }
  JsonText& end();  // of the innermost object or list
  JsonText& key(std::string_view name);

  JsonText& value(std::string_view text);
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  JsonText& value(bool b);
  JsonText& value(double number);
  template <std::signed_integral N>
  JsonText& value(N number) {
    return signed_number(number);
  }
  template <std::unsigned_integral N>
  JsonText& value(N number) requires(!std::same_as<N, bool>) {
    return unsigned_number(number);
  }
  JsonText& raw(std::string_view json);  // already encoded: encode_record(…)

  template <class T>
  JsonText& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  std::string take();  // CHECKs that everything is closed

 private:
  JsonText& open(char opening, char closing);
  JsonText& signed_number(std::int64_t number);
  JsonText& unsigned_number(std::uint64_t number);
  void before_value();

  std::string out_;
  std::vector<char> closing_;  // of what is open
  bool need_comma_ = false;
};

}  // namespace lockstep
