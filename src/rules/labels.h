// What is asked of labels, and what nodes' marks keep off.
#pragma once

#include <string_view>

#include "model/labels.h"

namespace lockstep {

struct Node;
struct Placement;

// Whether all of them hold. name: what a rule without a key is held against, where it is not empty.
bool rules_hold(const std::vector<LabelRule>& rules, const Labels& labels, std::string_view name = {});
// Null: it has no such label.
const std::string* label_of(const Labels& labels, std::string_view key);

bool bears(const Placement& group, const NodeMark& mark);
// Whether a mark of the node keeps the group off.
bool kept_off(const Placement& group, const Node& node);
// Whether one of the group's rules of nodes holds there; it has none: it does.
bool node_rules_hold(const Placement& group, const Node& node);

}  // namespace lockstep
