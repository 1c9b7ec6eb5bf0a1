// Reading and asking the switch tree.
#include "sim/node_tree.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "base/check.h"
#include "base/hostlist.h"
#include "base/text.h"

namespace lockstep::sim {
namespace {

struct Switch {
  std::string name;
  std::size_t line = 0;
  std::size_t parent = SIZE_MAX;
  std::string below;  // names, as written
  bool of_nodes = false;
};

class TreeReader {
 public:
  TreeReader(std::string_view name, std::int32_t nodes)
      : name_(name), leaf_of_(static_cast<std::size_t>(nodes), SIZE_MAX) {}

  Result<std::vector<std::vector<std::size_t>>> paths(std::string_view text) {
    TRY(read_lines(text));
    TRY(hang_up());
    TRY(check_tops());
    std::vector<std::vector<std::size_t>> paths;
    for (const std::size_t leaf : leaf_of_) {
      paths.emplace_back();
      for (std::size_t at = leaf; at != SIZE_MAX; at = switches_[at].parent) paths.back().push_back(at);
    }
    return paths;
  }

 private:
  Error wrong(std::size_t line, std::string what) const { return invalid(format("{}:{}: {}", name_, line, what)); }

  Result<void> read_lines(std::string_view text) {
    std::size_t number = 0;
    for (const std::string& line : split(text, '\n')) {
      ++number;
      const std::vector<std::string> words = split_words(std::string_view(line).substr(0, line.find('#')));
      if (words.empty())
        continue;
      Switch made{.line = number};
      for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        const std::string key = lower(word.substr(0, equals));
        const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
        if (value.empty())
          return wrong(number, format("\"{}\" is not KEY=VALUE", word));
        if (key == "switchname") {
          made.name = value;
        } else if ((key == "nodes" || key == "switches") && made.below.empty()) {
          made.below = value;
          made.of_nodes = key == "nodes";
        } else if (key != "linkspeed") {
          return wrong(number, format("\"{}\" was not expected here", word));
        }
      }
      if (made.name.empty() || made.below.empty())
        return wrong(number, "a line needs SwitchName= and one of Nodes= and Switches=");
      if (!by_name_.emplace(made.name, switches_.size()).second)
        return wrong(number, format("switch {} is named twice", made.name));
      switches_.push_back(std::move(made));
    }
    return {};
  }

  Result<void> hang_up() {
    for (std::size_t i = 0; i < switches_.size(); ++i) {
      const Switch above = switches_[i];
      const auto names = expand_hostlist(above.below);
      if (!names.ok())
        return wrong(above.line, names.error().message);
      for (const std::string& below : *names)
        TRY(above.of_nodes ? hang_node(above, i, below) : hang_switch(above, i, below));
    }
    return {};
  }

  Result<void> hang_node(const Switch& above, std::size_t i, const std::string& below) {
    const auto number = below.starts_with('n') ? parse_uint(std::string_view(below).substr(1)) : std::nullopt;
    if (!number || *number >= leaf_of_.size())
      return wrong(above.line, format("there is no node {}: they are n0 to n{}", below, leaf_of_.size() - 1));
    std::size_t& leaf = leaf_of_[*number];
    if (leaf != SIZE_MAX)
      return wrong(above.line, format("node {} hangs on {} already", below, switches_[leaf].name));
    leaf = i;
    return {};
  }

  Result<void> hang_switch(const Switch& above, std::size_t i, const std::string& below) {
    const auto found = by_name_.find(below);
    if (found == by_name_.end())
      return wrong(above.line, format("there is no switch {}", below));
    Switch& child = switches_[found->second];
    if (child.parent != SIZE_MAX)
      return wrong(above.line, format("switch {} hangs on {} already", below, switches_[child.parent].name));
    child.parent = i;
    for (std::size_t at = i; at != SIZE_MAX; at = switches_[at].parent)
      if (at == found->second)
        return wrong(above.line, format("a cycle: switch {} is above itself", below));
    return {};
  }

  Result<void> check_tops() const {
    const Switch* top = nullptr;
    for (const Switch& one : switches_) {
      if (one.parent != SIZE_MAX)
        continue;
      if (top)
        return wrong(one.line, format("neither of {} and {} hangs on a switch", top->name, one.name));
      top = &one;
    }
    for (std::size_t node = 0; node < leaf_of_.size(); ++node)
      if (leaf_of_[node] == SIZE_MAX)
        return invalid(format("{}: node n{} hangs on no switch", name_, node));
    return {};
  }

  std::string name_;
  std::vector<Switch> switches_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::vector<std::size_t> leaf_of_;  // by node
};

}  // namespace

NodeTree NodeTree::flat(std::int32_t nodes) {
  NodeTree tree;
  tree.depth_ = 1;
  tree.switch_of_ = {{}, std::vector<std::int32_t>(static_cast<std::size_t>(nodes), 0)};
  return tree;
}

Result<NodeTree> NodeTree::parse(std::string_view name, std::string_view text, std::int32_t nodes) {
  std::vector<std::vector<std::size_t>> paths = TRY(TreeReader(name, nodes).paths(text));
  NodeTree tree;
  for (const auto& path : paths) tree.depth_ = std::max(tree.depth_, static_cast<std::int32_t>(path.size()));
  tree.switch_of_.resize(static_cast<std::size_t>(tree.depth_) + 1);
  for (auto& path : paths) {  // a node nearer to the top: its switch counts as one on every level it skips
    path.insert(path.begin(), static_cast<std::size_t>(tree.depth_) - path.size(), path.front());
    for (std::size_t level = 1; level < tree.switch_of_.size(); ++level)
      tree.switch_of_[level].push_back(static_cast<std::int32_t>(path[level - 1]));
  }
  for (std::vector<std::int32_t>& level : tree.switch_of_) {
    std::map<std::int32_t, std::int32_t> numbers;
    for (std::int32_t& one : level) one = numbers.emplace(one, static_cast<std::int32_t>(numbers.size())).first->second;
  }
  return tree;
}

Result<NodeTree> NodeTree::read(const std::string& path, std::int32_t nodes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file)
    return not_found(format("cannot open {}", path));
  std::string text;
  char chunk[1 << 14];
  while (const std::size_t got = std::fread(chunk, 1, sizeof chunk, file.get())) text.append(chunk, got);
  return parse(path, text, nodes);
}

std::int32_t NodeTree::level_of(const GangPool::Place& place) const {
  CHECK(!place.empty());
  if (place.size() == 1)
    return 0;
  for (std::int32_t level = 1; level < depth_; ++level) {
    const auto& switches = switch_of_[static_cast<std::size_t>(level)];
    const auto on = [&](const GangPool::Part& part) { return switches[static_cast<std::size_t>(part.node)]; };
    if (std::all_of(place.begin(), place.end(), [&](const GangPool::Part& part) { return on(part) == on(place[0]); }))
      return level;
  }
  return depth_;
}

std::int32_t NodeTree::best_level(std::int32_t nodes) const {
  if (nodes <= 1)
    return 0;
  for (std::int32_t level = 1; level < depth_; ++level) {
    std::map<std::int32_t, std::int32_t> size;
    for (const std::int32_t one : switch_of_[static_cast<std::size_t>(level)])
      if (++size[one] >= nodes)
        return level;
  }
  return depth_;
}

std::vector<std::int32_t> NodeTree::choose_idle(const GangPool& pool, std::int32_t count) const {
  for (std::int32_t level = 1; level <= depth_; ++level) {
    const auto& switches = switch_of_[static_cast<std::size_t>(level)];
    std::map<std::int32_t, std::vector<std::int32_t>> idle;
    for (std::int32_t node = 0; node < pool.nodes(); ++node)
      if (pool.free_on(node) == pool.devices_per_node())
        idle[switches[static_cast<std::size_t>(node)]].push_back(node);
    const std::vector<std::int32_t>* best = nullptr;
    for (const auto& [one, nodes] : idle)
      if (static_cast<std::int32_t>(nodes.size()) >= count && (!best || nodes.size() < best->size()))
        best = &nodes;
    if (best)
      return {best->begin(), best->begin() + count};
  }
  return {};
}

}  // namespace lockstep::sim
