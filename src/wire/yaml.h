// YAML as people write it in files: what is in it, and where each part stands. One document; anchors, aliases and tags
// are refused, so that a small file stays small, unless a caller asks for the whole language.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct YamlMark {
  std::uint32_t offset = 0;  // bytes from the beginning of the text
  std::uint32_t line = 0;    // counted from 1
};

struct YamlNode {
  enum class Shape : unsigned char { kScalar, kList, kMap };
  Shape shape = Shape::kScalar;
  bool plain = false;  // a scalar without quotes
  bool flow = false;   // a list or map between brackets
  std::string text;    // of a scalar
  std::string tag;     // of a scalar, in full: "tag:yaml.org,2002:int"; empty: it has none
  std::string key;     // in a map
  bool key_plain = false;
  YamlMark key_begin, begin, end;
  std::vector<YamlNode> children;

  bool is_null() const { return shape == Shape::kScalar && plain && (text.empty() || text == "~" || text == "null"); }
  const YamlNode* child(std::string_view name) const;  // of a map; null: it has none
};

inline constexpr std::size_t kYamlBytesMax = 16 << 20;
inline constexpr std::size_t kYamlValuesMax = 500'000;

// The Error's message begins with the line: "line 3: …".
Result<YamlNode> read_yaml(std::string_view text, std::size_t bytes_max = kYamlBytesMax);

// The first document of the text in the whole language: aliases stand as what they mean, scalars have their tags, and a
// map may have a key twice. What aliases make of it counts, in values and in bytes.
struct YamlBounds {
  std::size_t bytes = kYamlBytesMax, values = kYamlValuesMax;
  int depth = 32;
};
Result<YamlNode> read_whole_yaml(std::string_view text, const YamlBounds& bounds);

// The text as a scalar that reads as this text again: as it is where that is safe, else between quotes. within: a list
// or map between brackets, where fewer characters are safe.
enum class YamlPlace : unsigned char { kBlock, kBrackets };
std::string yaml_scalar(std::string_view text, YamlPlace within);

struct YamlText {
  std::string json;
  std::vector<std::pair<std::string, std::size_t>> lines;  // by path ("jobs[2].name"), counted from 1

  // Of the innermost part that holds the path; 0 when nothing does.
  std::size_t line_of(std::string_view path) const;
};

// JSON is YAML too. The Error's message begins with the line.
Result<YamlText> json_of_yaml(std::string_view text);

}  // namespace lockstep
