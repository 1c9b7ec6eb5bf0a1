#include "wire/cluster_keep.h"

#include <algorithm>

#include "base/text.h"
#include "wire/cluster_match.h"
#include "wire/json.h"
#include "wire/yaml.h"

namespace lockstep {

namespace wire {

namespace {

// Exchanges of bytes of one text, in any order; they do not overlap.
class TextEdits {
 public:
  explicit TextEdits(std::string_view text) : text_(text) {}

  void replace(std::size_t begin, std::size_t end, std::string with) {
    edits_.push_back({begin, end, 0, std::move(with)});
  }
  void insert(std::size_t at, std::string what) { replace(at, at, std::move(what)); }
  // Of lines that come to the same place those that are further in are first: they belong to what stands above.
  void insert_lines(std::size_t at, std::string lines) {
    const std::size_t indent = std::min(lines.find_first_not_of("\n "), lines.size());
    const bool is_item = lines.compare(indent, 2, "- ") == 0;
    edits_.push_back({at, at, -2 * static_cast<std::ptrdiff_t>(indent) - is_item, std::move(lines)});
  }

  std::string result() {
    std::stable_sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) {
      return std::tie(a.begin, a.rank) < std::tie(b.begin, b.rank);
    });
    std::string out;
    std::size_t at = 0;
    for (const Edit& edit : edits_) {
      if (edit.begin < at)
        continue;
      out += text_.substr(at, edit.begin - at);
      out += edit.with;
      at = edit.end;
    }
    return out += text_.substr(at);
  }

 private:
  struct Edit {
    std::size_t begin, end;
    std::ptrdiff_t rank;  // of edits that begin at the same place
    std::string with;
  };
  std::string_view text_;
  std::vector<Edit> edits_;
};

class FileKeeper {
 public:
  FileKeeper(std::string_view text, const YamlNode& root, const ClusterFile& old, const ClusterFile& live)
      : text_(text), root_(root), old_(old), live_(live), edits_(text) {}

  std::string run() {
    named_section("nodes", old_.node_classes, live_.node_classes);
    named_section("partitions", old_.partitions, live_.partitions);
    named_section("qos", old_.qos, live_.qos);
    licences();
    named_section("reservations", old_.reservations, live_.reservations);
    named_section("health_checks", old_.health_checks, live_.health_checks);
    accounts();
    const YamlNode* policy = root_.child("policy");
    if (policy && old_.policy)
      keys(*policy, *old_.policy, live_.policy ? *live_.policy : Policy{});
    topology();
    administrators();
    return edits_.result();
  }

 private:
  // --- places in the text ---

  std::size_t line_begin(std::size_t at) const {
    const auto before = at == 0 ? text_.npos : text_.rfind('\n', at - 1);
    return before == text_.npos ? 0 : before + 1;
  }
  // Behind the line that holds the end of a value.
  std::size_t line_end(std::size_t end) const {
    if (end > 0 && text_[end - 1] == '\n')
      return end;
    const auto at = text_.find('\n', end);
    return at == text_.npos ? text_.size() : at + 1;
  }
  std::string indent_of(const YamlNode& child) const {
    const std::size_t begin = line_begin(child.key_begin.offset);
    return std::string(child.key_begin.offset - begin, ' ');
  }
  void insert_lines(std::size_t at, std::string lines) {
    if (at == text_.size() && !text_.empty() && text_.back() != '\n')
      lines = "\n" + lines;
    edits_.insert_lines(at, std::move(lines));
  }
  // Behind the colon of its key.
  std::size_t colon_end(const YamlNode& child) const {
    const auto at = text_.find(':', child.key_begin.offset + child.key.size());
    return at == text_.npos ? child.begin.offset : at + 1;
  }

  // --- values ---

  void replace_value(const YamlNode& child, const FileValue& value, bool within_brackets) {
    const bool is_block = child.shape != YamlNode::Shape::kScalar && !child.flow;
    if (is_block && child.shape == YamlNode::Shape::kList && edit_items(child, value))
      return;
    std::string fresh = value.yaml(within_brackets ? YamlPlace::kBrackets : YamlPlace::kBlock);
    if (is_block)
      return edits_.replace(colon_end(child), child.end.offset, " " + fresh);
    if (child.begin.offset == child.end.offset)
      return edits_.insert(colon_end(child), " " + fresh);
    if (text_[child.end.offset - 1] == '\n')  // of several lines
      fresh += '\n';
    edits_.replace(child.begin.offset, child.end.offset, std::move(fresh));
  }

  // Lines of a list that are no more go, and new ones come behind the last. False: they are not words, one a line.
  bool edit_items(const YamlNode& list, const FileValue& value) {
    if (value.shape != YamlNode::Shape::kList || value.items.empty())
      return false;
    std::vector<std::string> wanted;
    for (const auto& [key, text] : value.items) wanted.push_back(text);
    std::set<std::string> there;
    for (const YamlNode& item : list.children) {
      if (item.shape != YamlNode::Shape::kScalar)
        return false;
      there.insert(unescape(item.text));
    }
    for (const YamlNode& item : list.children)
      if (std::find(wanted.begin(), wanted.end(), unescape(item.text)) == wanted.end())
        edits_.replace(line_begin(item.begin.offset), line_end(item.end.offset), "");
    const std::size_t dash = text_.find('-', line_begin(list.children[0].begin.offset));
    const std::string indent(dash - line_begin(dash), ' ');
    std::string lines;
    for (const std::string& text : wanted)
      if (!there.contains(text))
        lines += format("{}- {}\n", indent, yaml_scalar(text, YamlPlace::kBrackets));
    if (!lines.empty())
      insert_lines(line_end(list.children.back().end.offset), lines);
    return true;
  }

  // A key that the map does not have yet.
  void insert_entry(const YamlNode& map, std::string_view key, const std::string& value) {
    const std::string name = yaml_scalar(key, YamlPlace::kBrackets);
    if (map.shape == YamlNode::Shape::kScalar)
      return map.begin.offset == map.end.offset
                 ? edits_.insert(colon_end(map), format(" {{{}: {}}}", name, value))
                 : edits_.replace(map.begin.offset, map.end.offset, format("{{{}: {}}}", name, value));
    if (map.flow && map.children.empty())
      return edits_.insert(map.begin.offset + 1, format("{}: {}", name, value));
    if (map.flow)
      return edits_.insert(map.children.back().end.offset, format(", {}: {}", name, value));
    // Before what holds records of its own.
    const YamlNode* last = nullptr;
    for (const YamlNode& child : map.children)
      if (child.key != "users" && child.key != "accounts" && child.key != "tree")
        last = &child;
    const std::string line = format("{}{}: {}\n", indent_of(map.children[0]), name, value);
    if (last)
      insert_lines(line_end(last->end.offset), line);
    else
      edits_.insert_lines(line_begin(map.children[0].key_begin.offset), line);
  }

  template <class T>
  void keys(const YamlNode& node, const T& old, const T& live) {
    for (const FileKey<T>& key : file_keys<T>()) {
      const FileValue value = key.write(live);
      if (key.write(old) == value)
        continue;
      const auto child = std::find_if(node.children.begin(), node.children.end(),
                                      [&](const YamlNode& one) { return file_key<T>(unescape(one.key)) == &key; });
      if (child != node.children.end())
        replace_value(*child, value, node.flow);
      else
        insert_entry(node, key.name, value.yaml(node.flow ? YamlPlace::kBrackets : YamlPlace::kBlock));
    }
  }

  // --- records ---

  // The lines of the records of a file that holds nothing else, moved to the right as their section has it.
  static std::string lines_behind(const ClusterFile& file, const std::string& indent) {
    const std::string text = encode_cluster_file(file);
    std::string out;
    const std::vector<std::string> lines = split(text, '\n');
    for (std::size_t i = 1; i < lines.size(); ++i)
      if (!lines[i].empty())
        out += indent + lines[i].substr(std::min<std::size_t>(2, lines[i].size())) + "\n";
    return out;
  }

  void append(const YamlNode& section, const ClusterFile& records) {
    if (section.flow && !section.children.empty())
      return;  // what is left is told
    if (!section.children.empty())
      return insert_lines(line_end(section.children.back().end.offset),
                          lines_behind(records, indent_of(section.children[0])));
    const std::size_t begin = colon_end(section);
    const std::size_t end = section.begin.offset == section.end.offset ? begin : section.end.offset;
    std::string lines = "\n" + lines_behind(records, "  ");
    if (text_.substr(end, 1) == "\n")
      lines.pop_back();
    edits_.replace(begin, end, std::move(lines));
  }

  template <class T>
  void named_section(std::string_view word, const std::vector<T>& old, const std::vector<T>& live) {
    const YamlNode* section = root_.child(word);
    if (!section)
      return;
    const auto there = by_name(old);
    ClusterFile fresh;
    for (const T& record : live) {
      const T* known = find_named(there, record.meta.name);
      const YamlNode* node = known ? child_named(*section, record.meta.name) : nullptr;
      if (node)
        keys(*node, *known, record);
      else if (!known)
        (fresh.*kListOf<T>).push_back(record);
    }
    if (!(fresh.*kListOf<T>).empty())
      append(*section, fresh);
  }

  static const YamlNode* child_named(const YamlNode& map, const std::string& name) {
    for (const YamlNode& child : map.children)
      if (unescape(child.key) == name)
        return &child;
    return nullptr;
  }

  void licences() {
    const YamlNode* section = root_.child(root_.child("licenses") ? "licenses" : "licences");
    if (!section)
      return;
    const auto there = by_name(old_.licences);
    ClusterFile fresh;
    for (const Licence& licence : live_.licences) {
      const Licence* known = find_named(there, licence.meta.name);
      const YamlNode* node = known ? child_named(*section, licence.meta.name) : nullptr;
      if (node && node->shape == YamlNode::Shape::kMap)
        keys(*node, *known, licence);
      else if (node && known->total != licence.total)
        replace_value(*node, CountForm::write(licence.total), section->flow);
      else if (!known)
        fresh.licences.push_back(licence);
    }
    if (!fresh.licences.empty())
      append(*section, fresh);
  }

  // --- accounts and their users ---

  void collect(const YamlNode& section) {
    for (const YamlNode& node : section.children) {
      account_nodes_.emplace(unescape(node.key), &node);
      if (const YamlNode* below = node.child("accounts"))
        collect(*below);
    }
  }

  void accounts() {
    const YamlNode* section = root_.child("accounts");
    if (!section)
      return;
    collect(*section);
    std::map<std::string, std::vector<const Association*>> users;
    for (const Association& one : live_.associations) {
      users[one.account].push_back(&one);
      accounts_of_[one.user].insert(one.account);
    }
    const auto there = by_name(old_.accounts);
    ClusterFile fresh;
    for (const Account& account : live_.accounts) {
      const Account* known = find_named(there, account.meta.name);
      const auto node = account_nodes_.find(account.meta.name);
      const auto own = users.find(account.meta.name);
      if (known && node != account_nodes_.end()) {
        keys(*node->second, *known, account);
        if (own != users.end())
          users_of(*node->second, own->second);
        continue;
      }
      fresh.accounts.push_back(account);
      if (own != users.end())
        for (const Association* one : own->second) fresh.associations.push_back(shown_as(*one));
    }
    if (!fresh.accounts.empty())
      append(*section, fresh);
  }

  // Of a user's only account nobody needs to be told that it is the default.
  Association shown_as(const Association& one) const {
    Association out = one;
    out.is_default = out.is_default && accounts_of_.at(one.user).size() > 1;
    return out;
  }
  std::string settings_of(const Association& one) const {
    std::string text;
    const Association plain = shown_as(one);
    for (const FileKey<Association>& key : file_keys<Association>())
      if (is_said(key, plain))
        text += format("{}{}: {}", text.empty() ? "" : ", ", key.name, key.write(plain).yaml(YamlPlace::kBrackets));
    return "{" + text + "}";
  }
  static std::string user_word(const Association& one) {
    return one.partition.empty() ? one.user : one.user + "/" + one.partition;
  }

  void users_of(const YamlNode& account, const std::vector<const Association*>& live) {
    const YamlNode* users = account.child("users");
    const auto there = by_name(old_.associations);
    std::vector<const Association*> fresh;
    for (const Association* one : live) {
      const Association* known = find_named(there, one->meta.name);
      const YamlNode* node = known && users ? child_named(*users, user_word(*one)) : nullptr;
      if (node)
        keys(*node, *known, *one);
      else if (!known)
        fresh.push_back(one);
    }
    if (!fresh.empty())
      add_users(account, users, fresh);
  }

  void add_users(const YamlNode& account, const YamlNode* users, const std::vector<const Association*>& fresh) {
    const bool all_plain =
        std::all_of(fresh.begin(), fresh.end(), [&](const Association* one) { return settings_of(*one) == "{}"; });
    std::vector<std::string> words;
    for (const Association* one : fresh) words.push_back(user_word(*one));
    if (users && users->shape == YamlNode::Shape::kMap) {
      for (const Association* one : fresh) insert_entry(*users, user_word(*one), settings_of(*one));
    } else if (users && users->shape == YamlNode::Shape::kList && all_plain) {
      std::vector<std::string> names;
      for (const YamlNode& item : users->children) names.push_back(unescape(item.text));
      names.insert(names.end(), words.begin(), words.end());
      replace_value(*users, FileValue::list(names), account.flow);
    } else if (!users && all_plain) {
      insert_entry(account, "users", FileValue::list(words).yaml());
    } else if (!users) {
      std::string text;
      for (const Association* one : fresh)
        text += format("{}{}: {}", text.empty() ? "" : ", ", yaml_scalar(user_word(*one), YamlPlace::kBrackets),
                       settings_of(*one));
      insert_entry(account, "users", "{" + text + "}");
    }
  }

  // --- the rest ---

  void leaf_nodes(const YamlNode& node, std::vector<std::string>& path,
                  std::map<std::string, std::pair<const YamlNode*, bool>>& out, bool within) {
    if (node.shape != YamlNode::Shape::kMap) {
      std::vector<std::string> whole = path;
      whole.resize(std::max(whole.size(), old_.topology->levels.size()), path.empty() ? "" : path.back());
      out["tree." + join(whole, ".")] = {&node, within};
      return;
    }
    for (const YamlNode& child : node.children) {
      path.push_back(unescape(child.key));
      leaf_nodes(child, path, out, node.flow);
      path.pop_back();
    }
  }

  void topology() {
    const YamlNode* section = root_.child("topology");
    const YamlNode* tree = section ? section->child("tree") : nullptr;
    if (!tree || !old_.topology || !live_.topology)
      return;
    keys(*section, *old_.topology, *live_.topology);
    std::map<std::string, std::pair<const YamlNode*, bool>> nodes;
    std::vector<std::string> path;
    leaf_nodes(*tree, path, nodes, false);
    auto had = leaves_by_path(*old_.topology);
    for (const auto& [where, hosts] : leaves_by_path(*live_.topology))
      if (const auto at = nodes.find(where); at != nodes.end())
        if (const FileValue value = HostsForm::write(hosts); value != HostsForm::write(had[where]))
          replace_value(*at->second.first, value, at->second.second);
  }

  void administrators() {
    const YamlNode* node = root_.child("administrators");
    if (!node || !old_.administrators)
      return;
    std::vector<std::string> live = live_.administrators.value_or(std::vector<std::string>());
    std::vector<std::string> old = *old_.administrators;
    std::sort(old.begin(), old.end());
    std::sort(live.begin(), live.end());
    if (old != live)
      replace_value(*node, FileValue::list(live), false);
  }

  const std::string_view text_;
  const YamlNode& root_;
  const ClusterFile& old_;
  const ClusterFile& live_;
  TextEdits edits_;
  std::map<std::string, const YamlNode*> account_nodes_;
  std::map<std::string, std::set<std::string>> accounts_of_;  // by user
};

// As it stands in words, seen from the file.
std::string left_words(const RecordDifference& one) {
  const std::string words = one.kind == Kind::kUser ? "administrator " + one.name : record_words(one.kind, one.name);
  switch (one.what) {
    case RecordDifference::What::kNew: return words + ": in the file, and not in the cluster";
    case RecordDifference::What::kAbsent: return words + ": in the cluster, and there was no place for it in the file";
    case RecordDifference::What::kChanged: break;
  }
  std::string keys;
  for (const KeyDifference& key : one.keys)
    keys += format("{}{} is {} in the cluster", keys.empty() ? "" : ", ", key.key, key.before);
  return format("{}: {}", words, keys);
}

}  // namespace

}  // namespace wire

Result<KeptFile> keep_cluster_file(std::string_view text, const ClusterFile& live) {
  const YamlNode root = TRY(read_yaml(text));
  const ClusterFile old = TRY(decode_cluster_file(text));
  std::vector<std::string> notes;
  const ClusterFile marked = wire::settled(live, old, WallTime{}, notes);  // which mark says nothing stays as written
  KeptFile out;
  out.text = wire::FileKeeper(text, root, old, marked).run();
  // What was written is read again: nobody has to trust the edits.
  const auto kept = decode_cluster_file(out.text);
  if (!kept)
    return invalid(
        format("this file's layout cannot be kept ({}); write it anew with `lockstep get`", kept.error().message));
  LiveCluster cluster;
  cluster.file = live;
  const ClusterDifference difference = differences(*kept, cluster, WallTime{});
  for (const RecordDifference& one : difference.records) out.left.push_back(wire::left_words(one));
  return out;
}

}  // namespace lockstep
