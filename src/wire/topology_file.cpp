// Reading in three steps: lines, the tree they make, a path for every leaf.
#include "wire/topology_file.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "base/hostlist.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kLevelsMax = 16;
constexpr std::size_t kNone = SIZE_MAX;  // an index that no switch has: the parent of one that hangs on nothing
constexpr std::size_t kSwitchesMax = 200'000;

struct Switch {
  std::string name;
  std::size_t line = 0, parent = kNone;
  std::string nodes, switches;  // as written
  std::vector<std::string> node_names;
};

bool plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == ':';
  });
}

std::vector<std::string> default_levels(std::size_t depth, bool blocks) {
  static const std::vector<std::string> kInward = {"leaf", "block", "spine", "core"};
  if (blocks || depth == 1)
    return {blocks ? "block" : "leaf"};
  if (depth == 2)
    return {"spine", "leaf"};
  std::vector<std::string> out;
  for (std::size_t i = depth; i-- > 0;) out.push_back(i < kInward.size() ? kInward[i] : format("level{}", i));
  return out;
}

class TopologyReader {
 public:
  TopologyReader(std::string_view name, const std::vector<std::string>& levels) : name_(name), levels_(levels) {}

  Result<TopologyFile> run(std::string_view text) {
    TRY(read_lines(text));
    if (switches_.empty())
      return invalid(format("{}: no SwitchName= and no BlockName= in it", name_));
    TRY(hang_switches());
    TRY(check_tree());
    TRY(name_nodes());
    TopologyFile file = TRY(paths());
    if (blocks_)
      TRY(join_blocks(file.topology));
    TRY(name_levels(file.topology));
    return file;
  }

 private:
  Error wrong(std::size_t line, std::string_view what) const {
    return invalid(format("{}:{}: {}", name_, line, what), "topology");
  }

  Result<void> read_lines(std::string_view text) {
    std::string whole;  // of lines joined by a backslash
    std::size_t number = 0, first = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number;
      if (whole.empty())
        first = number;
      if (const std::size_t at = line.find('#'); at != std::string_view::npos) {
        TRY(read_remark(number, trim(line.substr(at + 1))));
        line = line.substr(0, at);
      }
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
      const bool joined = line.ends_with('\\');
      if (joined)
        line.remove_suffix(1);
      whole += line;  // Slurm's parser puts nothing between the two either
      if (joined)
        continue;
      TRY(read_line(first, split_words(whole)));
      whole.clear();
    }
    return whole.empty() ? Result<void>() : read_line(first, split_words(whole));
  }

  Result<void> read_remark(std::size_t number, std::string_view remark) {
    constexpr std::string_view kLevels = "levels:";
    if (!levels_.empty() || lower(remark.substr(0, kLevels.size())) != kLevels)
      return {};
    levels_line_ = number;
    std::string list(remark.substr(kLevels.size()));
    std::replace(list.begin(), list.end(), ',', ' ');
    levels_ = split_words(list);
    return {};
  }

  // One KEY=VALUE of a line that describes a switch or a block. is_block: set by the key that only blocks have.
  Result<void> read_word(std::size_t number, std::string_view word, Switch& made, bool& is_block) const {
    const auto [key, value] = parts_of(word);
    if (value.empty())
      return wrong(number, format("\"{}\" is not KEY=VALUE", word));
    std::string* into = key == "switchname" || key == "blockname" ? &made.name
                        : key == "nodes"                          ? &made.nodes
                        : key == "switches"                       ? &made.switches
                                                                  : nullptr;
    is_block = is_block || key == "blockname";
    if (!into)
      return key == "linkspeed" ? Result<void>() : wrong(number, format("\"{}\" was not expected here", word));
    if (!into->empty())
      return wrong(number, format("{} is there twice", key));
    *into = value;
    return {};
  }

  static std::pair<std::string, std::string> parts_of(std::string_view word) {
    const std::size_t equals = word.find('=');
    return {lower(word.substr(0, equals)),
            equals == std::string_view::npos ? std::string() : std::string(word.substr(equals + 1))};
  }

  Result<void> check_switch(const Switch& made, bool is_block) const {
    if (made.name.empty())
      return wrong(made.line, "SwitchName= or BlockName= is missing");
    if (!plain_name(made.name))
      return wrong(made.line, format("\"{}\" is no name of a switch", made.name));
    if (!switches_.empty() && is_block != blocks_)
      return wrong(made.line, "switches and blocks do not go together in one file");
    if (is_block && !made.switches.empty())
      return wrong(made.line, format("block {} has Switches=", made.name));
    if (made.nodes.empty() == made.switches.empty())
      return wrong(made.line, format("{} needs {}", made.name, is_block ? "Nodes=" : "either Nodes= or Switches="));
    return {};
  }

  Result<void> read_line(std::size_t number, const std::vector<std::string>& words) {
    if (words.empty())
      return {};
    if (words.size() == 1)
      if (const auto [key, value] = parts_of(words.front()); key == "blocksizes" && !value.empty())
        return read_sizes(number, value);
    Switch made{.name = {}, .line = number, .parent = kNone, .nodes = {}, .switches = {}, .node_names = {}};
    bool is_block = false;
    for (const std::string& word : words) TRY(read_word(number, word, made, is_block));
    TRY(check_switch(made, is_block));
    blocks_ = is_block;
    if (const auto [at, fresh] = by_name_.emplace(made.name, switches_.size()); !fresh)
      return wrong(number, format("{} is there already, in line {}", made.name, switches_[at->second].line));
    if (switches_.size() >= kSwitchesMax)
      return wrong(number, format("more than {} switches", kSwitchesMax));
    switches_.push_back(std::move(made));
    return {};
  }

  Result<void> read_sizes(std::size_t number, const std::string& value) {
    if (sizes_line_ != 0)
      return wrong(number, "BlockSizes= is there twice");
    sizes_line_ = number;
    for (const std::string& word : split(value, ',')) {
      const auto size = parse_uint(word);
      if (!size || *size == 0 || *size > kHostlistMax)
        return wrong(number, format("BlockSizes: \"{}\" is no number of nodes", word));
      const std::uint64_t base = sizes_.empty() ? *size : sizes_.front();
      const std::uint64_t times = *size / base;
      if (*size % base != 0 || (times & (times - 1)) != 0 || (!sizes_.empty() && *size <= sizes_.back()))
        return wrong(number, format("BlockSizes: {} is not {} times a power of two, in rising order", *size, base));
      sizes_.push_back(*size);
    }
    return {};
  }

  Result<void> hang_switches() {
    std::size_t named = 0;
    for (std::size_t i = 0; i < switches_.size(); ++i) {
      if (switches_[i].switches.empty())
        continue;
      const std::size_t line = switches_[i].line;
      const auto names = expand_hostlist(switches_[i].switches);
      if (!names)
        return wrong(line, names.error().message);
      if (names->empty())
        return wrong(line, format("{} has no switches", switches_[i].name));
      named += names->size();
      if (named > kHostlistMax)
        return wrong(line, format("more than {} switches below switches", kHostlistMax));
      for (const std::string& below : *names) {
        const auto found = by_name_.find(below);
        if (found == by_name_.end())
          return wrong(line, format("there is no switch {} in this file", below));
        Switch& child = switches_[found->second];
        if (child.parent != kNone)
          return wrong(line, format("switch {} hangs on {} already", below, switches_[child.parent].name));
        child.parent = i;
      }
    }
    return {};
  }

  // No cycles, nothing that hangs on nothing, not too deep.
  Result<void> check_tree() {
    depth_of_.assign(switches_.size(), 0);
    std::vector<std::size_t> way;
    std::vector<bool> on_way(switches_.size());
    for (std::size_t i = 0; i < switches_.size(); ++i) {
      way.clear();
      std::size_t at = i;
      while (at != kNone && depth_of_[at] == 0 && !on_way[at]) {
        on_way[at] = true;
        way.push_back(at);
        at = switches_[at].parent;
      }
      if (at != kNone && on_way[at] && depth_of_[at] == 0)
        return wrong(switches_[at].line, cycle_words(at));
      std::size_t depth = at == kNone ? 0 : depth_of_[at];
      for (; !way.empty(); way.pop_back()) {
        on_way[way.back()] = false;
        depth_of_[way.back()] = ++depth;
      }
      if (depth > kLevelsMax)
        return wrong(switches_[i].line, format("{} lies deeper than {} levels", switches_[i].name, kLevelsMax));
    }
    return check_tops();
  }

  std::string cycle_words(std::size_t at) const {
    std::string words = format("a cycle: {}", switches_[at].name);
    std::size_t next = switches_[at].parent, told = 0;
    for (; next != at && told < 8; next = switches_[next].parent, ++told)
      words += format(" hangs on {}, which", switches_[next].name);
    return words + format(" hangs on {}{}", told == 8 ? "… on " : "", switches_[at].name);
  }

  Result<void> check_tops() const {
    std::map<std::size_t, std::size_t> height;  // by top: levels below and with it
    std::size_t highest = 0;
    for (std::size_t i = 0; i < switches_.size(); ++i) {
      std::size_t top = i;
      while (switches_[top].parent != kNone) top = switches_[top].parent;
      std::size_t& most = height[top];
      most = std::max(most, depth_of_[i]);
      highest = std::max(highest, most);
    }
    for (const auto& [top, levels] : height)
      if (levels < highest)
        return wrong(switches_[top].line,
                     format("switch {} hangs on no other switch, while others have {} level(s) above their nodes",
                            switches_[top].name, highest));
    return {};
  }

  Result<void> name_nodes() {
    std::map<std::string, std::size_t, std::less<>> holder;
    for (std::size_t i = 0; i < switches_.size(); ++i) {
      Switch& leaf = switches_[i];
      if (leaf.nodes.empty())
        continue;
      auto names = expand_hostlist(leaf.nodes);
      if (!names)
        return wrong(leaf.line, names.error().message);
      if (names->empty())
        return wrong(leaf.line, format("{} has no nodes", leaf.name));
      for (const std::string& node : *names) {
        if (!plain_name(node))
          return wrong(leaf.line, format("\"{}\" is no name of a node", node));
        if (const auto [at, fresh] = holder.emplace(node, i); !fresh)
          return wrong(leaf.line, at->second == i ? format("node {} is there twice", node)
                                                  : format("node {} is on {} already, in line {}", node,
                                                           switches_[at->second].name, switches_[at->second].line));
        if (holder.size() > kHostlistMax)
          return wrong(leaf.line, format("more than {} nodes", kHostlistMax));
      }
      leaf.node_names = std::move(*names);
    }
    return {};
  }

  Result<TopologyFile> paths() {
    TopologyFile file;
    file.topology.blocks = blocks_;
    std::size_t depth = 0;
    for (std::size_t i = 0; i < switches_.size(); ++i)
      if (!switches_[i].node_names.empty())
        depth = std::max(depth, depth_of_[i]);
    depth_ = depth;
    for (Switch& leaf : switches_) {
      if (leaf.node_names.empty())
        continue;
      TopologyLeaf made;
      made.path = {leaf.name};
      for (std::size_t at = leaf.parent; at != kNone; at = switches_[at].parent)
        made.path.push_back(switches_[at].name);
      std::reverse(made.path.begin(), made.path.end());
      made.path.resize(depth, leaf.name);
      made.nodes = std::move(leaf.node_names);
      file.topology.leaves.push_back(std::move(made));
      file.lines.push_back(leaf.line);
    }
    return file;
  }

  // BlockSizes=18,36: two consecutive blocks of 18 are one of 36.
  Result<void> join_blocks(Topology& topology) {
    if (sizes_.empty())
      return {};
    for (std::size_t i = 0; i < topology.leaves.size(); ++i)
      if (topology.leaves[i].nodes.size() < sizes_[0])
        return wrong(switches_[i].line,
                     format("block {} has {} nodes; BlockSizes in line {} wants at least {}", switches_[i].name,
                            topology.leaves[i].nodes.size(), sizes_line_, sizes_[0]));
    // A size that joins no more than the one before it would make a level without meaning.
    while (sizes_.size() > 1 && sizes_[sizes_.size() - 2] / sizes_[0] >= topology.leaves.size()) sizes_.pop_back();
    for (std::size_t s = 1; s < sizes_.size(); ++s) {
      const std::size_t times = sizes_[s] / sizes_[0];
      for (std::size_t from = 0; from < topology.leaves.size(); from += times) {
        const std::size_t to = std::min(from + times, topology.leaves.size());
        std::vector<std::string> names;
        for (std::size_t i = from; i < to; ++i) names.push_back(topology.leaves[i].path.back());
        for (std::size_t i = from; i < to; ++i) {
          std::vector<std::string>& path = topology.leaves[i].path;
          path.insert(path.begin(), times == 1 ? path.back() : compress_hostlist(names));
        }
      }
    }
    depth_ = sizes_.size();
    return {};
  }

  Result<void> name_levels(Topology& topology) {
    std::vector<std::string>& levels = topology.levels;
    if (levels_.empty()) {
      levels = default_levels(depth_, blocks_);
      for (std::size_t s = 1; s < sizes_.size(); ++s) levels.insert(levels.begin(), format("block{}", sizes_[s]));
      return {};
    }
    levels = levels_;
    const auto refuse = [&](std::string_view what) {
      return levels_line_ != 0 ? wrong(levels_line_, what) : invalid(format("{}: {}", name_, what), "levels");
    };
    if (levels.size() != depth_)
      return refuse(format("{} level(s) are named; the tree has {}", levels.size(), depth_));
    std::set<std::string> seen;
    for (const std::string& level : levels) {
      if (!plain_name(level) || level == "node" || level == "cluster")
        return refuse(format("\"{}\" is no name for a level", level));
      if (!seen.insert(level).second)
        return refuse(format("level {} is there twice", level));
    }
    return {};
  }

  std::string name_;
  std::vector<std::string> levels_;
  std::size_t levels_line_ = 0, sizes_line_ = 0, depth_ = 0;
  std::vector<std::uint64_t> sizes_;
  std::vector<Switch> switches_;
  std::vector<std::size_t> depth_of_;  // by switch: 1 = a top
  std::map<std::string, std::size_t, std::less<>> by_name_;
  bool blocks_ = false;
};

}  // namespace

Result<TopologyFile> parse_topology(std::string_view name, std::string_view text,
                                    const std::vector<std::string>& levels) {
  return TopologyReader(name, levels).run(text);
}

std::vector<std::string> topology_differences(std::string_view name, const TopologyFile& file,
                                              const std::vector<std::string>& cluster_nodes) {
  const std::set<std::string_view> known(cluster_nodes.begin(), cluster_nodes.end());
  std::set<std::string_view> named;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    std::vector<std::string> strange;
    for (const std::string& node : file.topology.leaves[i].nodes) {
      named.insert(node);
      if (!known.contains(node))
        strange.push_back(node);
    }
    sort_hosts(strange);
    if (!strange.empty())
      out.push_back(format("{}:{}: {} {} no node{} of this cluster yet", name, file.lines[i],
                           compress_hostlist(strange), strange.size() == 1 ? "is" : "are",
                           strange.size() == 1 ? "" : "s"));
  }
  std::vector<std::string> left_out;
  for (const std::string& node : cluster_nodes)
    if (!named.contains(node))
      left_out.push_back(node);
  sort_hosts(left_out);
  if (!left_out.empty())
    out.push_back(
        format("{}: {} hang{} on no switch", name, compress_hostlist(left_out), left_out.size() == 1 ? "s" : ""));
  return out;
}

std::vector<SwitchView> switches_of(const Topology& topology) {
  std::vector<SwitchView> out;
  std::map<std::pair<std::size_t, std::string>, std::size_t> at;  // by height and name
  const std::size_t depth = topology.levels.size();
  for (std::size_t height = 0; height < depth; ++height)
    for (const TopologyLeaf& leaf : topology.leaves) {
      if (leaf.path.size() != depth)
        continue;
      const std::string& name = leaf.path[depth - 1 - height];
      if (height > 0 && name == leaf.path.back())
        continue;  // stands for itself
      const auto [it, fresh] = at.try_emplace({height, name}, out.size());
      if (fresh)
        out.push_back({name, height, {}, {}});
      SwitchView& view = out[it->second];
      view.nodes.insert(view.nodes.end(), leaf.nodes.begin(), leaf.nodes.end());
      if (height == 0)
        continue;
      const std::string& below = leaf.path[depth - height];
      if (std::find(view.switches.begin(), view.switches.end(), below) == view.switches.end())
        view.switches.push_back(below);
    }
  for (SwitchView& view : out) sort_hosts(view.nodes);
  return out;
}

std::string topology_text(const Topology& topology) {
  std::string out = format("# levels: {}\n", join(topology.levels, ", "));
  std::size_t base = SIZE_MAX;
  for (const TopologyLeaf& leaf : topology.leaves) base = std::min(base, leaf.nodes.size());
  for (const SwitchView& view : switches_of(topology)) {
    if (topology.blocks && view.height > 0)
      continue;
    out += format("{}={} {}={}\n", topology.blocks ? "BlockName" : "SwitchName", view.name,
                  view.height == 0 ? "Nodes" : "Switches",
                  compress_hostlist(view.height == 0 ? view.nodes : view.switches));
  }
  if (topology.blocks && topology.levels.size() > 1) {
    std::map<std::string, std::size_t> members;
    std::vector<std::string> sizes = {format("{}", base)};
    for (std::size_t level = topology.levels.size() - 1; level-- > 0;) {
      members.clear();
      std::size_t most = 1;
      for (const TopologyLeaf& leaf : topology.leaves) most = std::max(most, ++members[leaf.path[level]]);
      sizes.push_back(format("{}", base * std::bit_ceil(most)));
    }
    out += format("BlockSizes={}\n", join(sizes, ","));
  }
  return out;
}

}  // namespace lockstep
