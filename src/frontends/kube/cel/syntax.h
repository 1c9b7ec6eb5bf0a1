// Expressions of CEL as trees, and the parser that makes them of text.
//
// Macros (has, all, exists, map …) become nodes of their own; chains of && and || one node with many parts, so that
// long ones are not deep.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/kube/cel/value.h"

namespace lockstep::kube::cel {

inline constexpr std::size_t kExpressionMax = 64 << 10;  // bytes
inline constexpr std::size_t kExpressionDepthMax = 150;
inline constexpr std::size_t kExpressionNodesMax = 20'000;

struct Node {
  enum class Kind : unsigned char {
    kLiteral,
    kName,
    kField,     // parts[0].name; `test`: has(…)
    kIndex,     // parts[0][parts[1]]
    kCall,      // name(parts…); `method`: parts[0].name(…)
    kAnd,       // all of parts
    kOr,        // any of parts
    kChoice,    // parts[0] ? parts[1] : parts[2]
    kList,      // `optional_parts` marks [?x]
    kMap,       // keys and values in turns
    kLoop,      // a macro over parts[0]; the others are evaluated for each element
    kOptional,  // optMap, optFlatMap: parts[1] with `first` bound to the value of parts[0]
  } kind = Kind::kLiteral;
  std::size_t position = 0;  // in the text, bytes
  std::string name;          // kName, kField, kCall; kLoop, kOptional: the macro
  Value literal;
  bool method = false;
  bool test = false;
  bool optional = false;  // kField, kIndex: .?name, [?key]
  std::vector<bool> optional_parts;
  std::string first, second;  // kLoop: its variables; `second` may be empty
  std::vector<std::unique_ptr<Node>> parts;
  std::size_t depth = 1;
};

// Error: `ERROR: <input>:1:5: Syntax error: …`, with the line and a mark below the place.
Result<std::unique_ptr<Node>> parse_expression(std::string_view text);

// The same form for a fault that is found later.
std::string fault_at(std::string_view text, std::size_t position, std::string_view message);

}  // namespace lockstep::kube::cel
