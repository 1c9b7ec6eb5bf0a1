#include "container/documents.h"

#include "base/text.h"

namespace lockstep {

Result<YamlNode> read_document(std::string_view text, std::string_view what) {
  auto document = read_yaml(text, kDocumentMax);
  if (!document.ok())
    return invalid(format("{}: {}", what, document.error().message));
  if (document->shape != YamlNode::Shape::kMap)
    return invalid(format("{}: it is no object", what));
  return document;
}

std::vector<std::string> texts_of(const YamlNode* list) {
  std::vector<std::string> out;
  if (list && list->shape == YamlNode::Shape::kList)
    for (const YamlNode& node : list->children) out.push_back(text_of(&node));
  return out;
}

}  // namespace lockstep
