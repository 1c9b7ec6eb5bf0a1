#include "core/node_classes.h"

#include <algorithm>
#include <set>

#include "base/hostlist.h"
#include "base/text.h"
#include "core/directory.h"
#include "core/versions.h"

namespace lockstep {

namespace {

const NodeClass* class_naming(const ClusterState::Inner& inner, const std::string& node) {
  const auto at = inner.class_of_node.find(node);
  return at == inner.class_of_node.end() ? nullptr : inner.tables.node_classes.at(at->second).get();
}

bool is_feature(std::string_view word) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:+";
  return !word.empty() && word.find_first_not_of(kLetters) == word.npos;
}

Result<void> check_class(const NodeClass& one) {
  const std::string& name = one.meta.name;
  if (name.empty() || name.find_first_of(" ,/|\t\n") != name.npos || name.starts_with('-'))
    return invalid(
        format("a node class cannot be named \"{}\": no blanks, commas, slashes, bars or a leading dash", name),
        "name");
  for (const std::string& node : one.nodes)
    if (!is_node_name(node))
      return invalid(format("node class {}: \"{}\" is no name of a node", name, node), "nodes");
  for (const std::string& feature : one.features)
    if (!is_feature(feature))
      return invalid(format("node class {}: \"{}\" is no feature: letters, digits and - _ . : + are", name, feature),
                     "features");
  return {};
}

Result<void> check_no_other_names(const ClusterState::Inner& inner, const NodeClass& one) {
  for (const std::string& node : one.nodes)
    if (const NodeClass* other = class_naming(inner, node); other && other->meta.name != one.meta.name)
      return Error{Errc::kConflict,
                   format("node {} is in class {} and would be in class {}: a node is in one class at most", node,
                          other->meta.name, one.meta.name),
                   "nodes"};
  return {};
}

// Each node learns what the classes say of it now.
void dress_nodes(Txn& txn, const std::set<std::string>& named) {
  for (const std::string& name : named) {
    const Node* known = txn.tables().node(name);
    if (!known)
      continue;
    Node node = *known;
    without_class(node);
    with_class(txn.inner(), node);
    if (node.node_class != known->node_class || node.features != known->features || node.weight != known->weight)
      txn.put(std::move(node));
  }
}

}  // namespace

void without_class(Node& node) {
  if (node.node_class.empty())
    return;
  node.features = std::exchange(node.own_features, {});
  node.weight = std::exchange(node.own_weight, 0);
  node.node_class.clear();
}

void with_class(const ClusterState::Inner& inner, Node& node) {
  const NodeClass* one = class_naming(inner, node.meta.name);
  if (!one)
    return;
  node.node_class = one->meta.name;
  node.own_features = node.features;
  node.own_weight = node.weight;
  for (const std::string& feature : one->features)
    if (std::find(node.features.begin(), node.features.end(), feature) == node.features.end())
      node.features.push_back(feature);
  if (one->weight != 0)
    node.weight = one->weight;
}

Result<Answer> put_node_class(Txn& txn, const PutNodeClass& ask) {
  TRY(need_admin(txn, "change node classes"));
  NodeClass one = ask.node_class;
  TRY(check_class(one));
  TRY(expect_version(txn.tables(), one, ask.if_seq, "node class " + one.meta.name));
  std::sort(one.nodes.begin(), one.nodes.end());
  one.nodes.erase(std::unique(one.nodes.begin(), one.nodes.end()), one.nodes.end());
  TRY(check_no_other_names(txn.inner(), one));
  std::set<std::string> named(one.nodes.begin(), one.nodes.end());
  if (const Ref<NodeClass> before = record_like(txn.tables(), one))
    named.insert(before->nodes.begin(), before->nodes.end());
  const Ref<NodeClass> made = txn.put(std::move(one));
  dress_nodes(txn, named);
  return Answer{.seq = made->meta.seq};
}

Result<void> remove_node_class(Txn& txn, const RemoveNodeClass& ask) {
  TRY(need_admin(txn, "remove node classes"));
  const auto it = txn.tables().node_classes.find(ask.name);
  if (it == txn.tables().node_classes.end())
    return not_found(format("there is no node class {}", ask.name));
  const Ref<NodeClass> record = it->second;
  txn.remove(record);
  dress_nodes(txn, {record->nodes.begin(), record->nodes.end()});
  return {};
}

}  // namespace lockstep
