// JSON and YAML that others wrote, as trees of text. What is missing or of another shape reads as empty.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/yaml.h"

namespace lockstep {

inline constexpr std::size_t kDocumentMax = 8 << 20;

// what: for the message of an Error.
Result<YamlNode> read_document(std::string_view text, std::string_view what);

inline std::string text_of(const YamlNode* node) {
  return node && node->shape == YamlNode::Shape::kScalar && !node->is_null() ? node->text : std::string();
}
inline std::span<const YamlNode> children_of(const YamlNode* node) {
  return node ? std::span<const YamlNode>(node->children) : std::span<const YamlNode>();
}
std::vector<std::string> texts_of(const YamlNode* list);

}  // namespace lockstep
