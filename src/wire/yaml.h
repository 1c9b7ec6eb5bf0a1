// YAML as people write it in files, turned into JSON, with the line of everything in it. One document; anchors, aliases
// and tags are refused, so that a small file stays small.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct YamlText {
  std::string json;
  std::vector<std::pair<std::string, std::size_t>> lines;  // by path ("jobs[2].name"), counted from 1

  // Of the innermost part that holds the path; 0 when nothing does.
  std::size_t line_of(std::string_view path) const;
};

// JSON is YAML too. The Error's message begins with the line: "line 3: …".
Result<YamlText> json_of_yaml(std::string_view text);

}  // namespace lockstep
