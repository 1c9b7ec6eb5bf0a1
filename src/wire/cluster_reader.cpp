// cluster.yaml -> records, and what contradicts itself in them.
#include <algorithm>

#include "base/hostlist.h"
#include "base/nearest.h"
#include "base/text.h"
#include "model/faults.h"
#include "model/kinds.h"
#include "model/record_fields.h"
#include "wire/cluster_file.h"
#include "wire/cluster_keys.h"
#include "wire/json.h"

namespace lockstep {

namespace wire {

namespace {

constexpr std::size_t kFileRecordsMax = 10'000;        // of a kind
constexpr std::size_t kFileAssociationsMax = 100'000;  // users in accounts

// "line 3: why" -> "line 3: path: why".
Error under(Error error, const std::string& path) {
  const auto at = error.message.find(": ");
  if (error.field.empty() && at != error.message.npos) {
    error.message.insert(at + 2, path + ": ");
    error.field = path;
  }
  return error;
}

Result<void> check_record_name(const YamlNode& entry, const std::string& name) {
  if (name.empty() || name.find_first_of(" ,/|\t\n") != name.npos || name.starts_with('-'))
    return wrong_at(entry, format("\"{}\" is no name here: no blanks, commas, slashes, bars or a leading dash", name));
  return {};
}

class ClusterFileReader {
 public:
  Result<ClusterFile> run(const YamlNode& root) {
    if (root.is_null())
      return wrong_at(root, "the file is empty");
    if (root.shape != YamlNode::Shape::kMap)
      return wrong_at(root, "must have sections: nodes, partitions, qos, accounts, …");
    for (const YamlNode& section : root.children) TRY(read_section(section));
    settle_defaults();
    TRY(check_cluster_file(file_));
    return std::move(file_);
  }

 private:
  Result<void> read_section(const YamlNode& node) {
    if (node.key == kAdministrators)
      return read_administrators(node);
    const SectionRow* known = nullptr;
    std::vector<std::string_view> words = {kAdministrators};
    for (const SectionRow& section : file_sections()) {
      words.push_back(section.word);
      if (section.word == node.key || (section.kind == Kind::kLicence && node.key == "licenses"))
        known = &section;
    }
    if (!known)
      return invalid(
          format("line {}: no section \"{}\" is known{}", node.key_begin.line, node.key, hint(node.key, words)),
          node.key);
    if (!file_.sections.insert(known->kind).second)
      return invalid(format("line {}: {} is there twice", node.key_begin.line, known->word), node.key);
    switch (known->kind) {
      case Kind::kNodeClass: return each_named(node, file_.node_classes);
      case Kind::kPartition: return each_named(node, file_.partitions);
      case Kind::kQos: return each_named(node, file_.qos);
      case Kind::kAccount: return read_accounts(node, "", node.key);
      case Kind::kLicence: return each_named(node, file_.licences);
      case Kind::kReservation: return each_named(node, file_.reservations);
      case Kind::kHealthCheck: return each_named(node, file_.health_checks);
      case Kind::kPolicy: return read_policy(node);
      default: return read_topology(node);
    }
  }

  Result<void> read_administrators(const YamlNode& node) {
    std::vector<std::string> names;
    auto done = NamesForm::read(node, names);
    if (!done)
      return under(std::move(done).error(), node.key);
    file_.administrators = std::move(names);
    return {};
  }

  static Result<void> need_map(const YamlNode& node, const std::string& path) {
    if (node.shape == YamlNode::Shape::kMap || node.is_null())
      return {};
    return under(wrong_at(node, "must have keys, one a line"), path);
  }

  template <class T>
  static Result<void> read_key(const YamlNode& entry, const std::string& path, T& record, std::set<std::string>& seen,
                               std::span<const std::string_view> besides) {
    const FileKey<T>* key = file_key<T>(unescape(entry.key));
    if (!key) {
      std::vector<std::string_view> known(besides.begin(), besides.end());
      for (const FileKey<T>& one : file_keys<T>()) known.push_back(one.name);
      return invalid(format("line {}: {}: no key \"{}\" is known{}", entry.key_begin.line, path, entry.key,
                            hint(entry.key, known)),
                     path);
    }
    if (!seen.insert(std::string(key->name)).second)
      return invalid(format("line {}: {}: {} is there twice", entry.key_begin.line, path, key->name), path);
    auto done = key->read(entry, record);
    return done ? Result<void>() : under(std::move(done).error(), path + "." + std::string(key->name));
  }

  // Whose keys are read by others first: `besides`.
  template <class T>
  Result<void> read_keys(const YamlNode& node, const std::string& path, T& record,
                         std::span<const std::string_view> besides = {}) {
    TRY(need_map(node, path));
    std::set<std::string> seen;
    for (const YamlNode& entry : node.children)
      if (std::find(besides.begin(), besides.end(), entry.key) == besides.end())
        TRY(read_key(entry, path, record, seen, besides));
    for (const FileKey<T>& key : file_keys<T>())
      if (key.always && !seen.contains(std::string(key.name)))
        return under(wrong_at(node, missing_words(path, key)), path);
    if (const auto fault = fault_in(record))
      return under(wrong_at(node, format("{} {}", fault->where, fault->why)), path);
    return {};
  }

  template <class T>
  static std::string missing_words(const std::string&, const FileKey<T>& key) {
    if constexpr (std::is_same_v<T, Partition>)
      return "names no nodes: say `nodes: ALL` for every node, `nodes: []` for none yet";
    else
      return format("does not say {}: {}", key.name, key.meaning);
  }

  template <class T>
  Result<void> each_named(const YamlNode& node, std::vector<T>& out) {
    TRY(need_map(node, node.key));
    for (const YamlNode& entry : node.children) {
      const std::string name = unescape(entry.key);
      T record;
      record.meta.name = name;
      TRY(check_record_name(entry, name));
      TRY(read_record(entry, node.key + "." + name, record));
      TRY(add(kKindOf<T>, name, entry, out, std::move(record)));
    }
    return {};
  }

  template <class T>
  Result<void> read_record(const YamlNode& entry, const std::string& path, T& record) {
    return read_keys(entry, path, record);
  }
  Result<void> read_record(const YamlNode& entry, const std::string& path, Licence& record) {
    if (entry.shape == YamlNode::Shape::kScalar && !entry.is_null()) {
      auto done = CountForm::read(entry, record.total);
      return done ? Result<void>() : under(std::move(done).error(), path);
    }
    return read_keys(entry, path, record);
  }

  template <class T>
  Result<void> add(Kind kind, const std::string& name, const YamlNode& at, std::vector<T>& out, T record) {
    const std::size_t most = kind == Kind::kAssociation ? kFileAssociationsMax : kFileRecordsMax;
    const std::string words = record_words(kind, name);
    if (out.size() >= most)
      return invalid(format("line {}: more than {} of a kind: {}", at.key_begin.line, most, words));
    const std::size_t line = at.key_begin.line ? at.key_begin.line : at.begin.line;
    if (const auto [there, fresh] = file_.places.emplace(words, format("line {}", line)); !fresh)
      return invalid(format("line {}: {} is there twice; the first stands in {}", line, words, there->second));
    out.push_back(std::move(record));
    return {};
  }

  Result<void> read_accounts(const YamlNode& node, const std::string& parent, const std::string& path) {
    TRY(need_map(node, path));
    for (const YamlNode& entry : node.children) {
      const std::string name = unescape(entry.key);
      TRY(check_record_name(entry, name));
      Account account;
      account.meta.name = name;
      account.parent = parent;
      TRY(read_account(entry, path + "." + name, std::move(account)));
    }
    return {};
  }

  Result<void> read_account(const YamlNode& node, const std::string& path, Account account) {
    constexpr std::string_view kBesides[] = {"parent", "users", "accounts"};
    TRY(read_keys(node, path, account, kBesides));
    const std::string name = account.meta.name;
    if (const YamlNode* above = node.child("parent")) {
      auto text = above->is_null() ? Result<std::string>(std::string()) : scalar_of(*above, "the name of an account");
      if (!text)
        return under(std::move(text).error(), path + ".parent");
      if (!account.parent.empty() && account.parent != *text)
        return under(
            wrong_at(*above, format("stands in account {}, and names {} as the one above it", account.parent, *text)),
            path + ".parent");
      account.parent = *text == "root" ? "" : *text;
    }
    TRY(add(Kind::kAccount, name, node, file_.accounts, std::move(account)));
    if (const YamlNode* users = node.child("users"))
      TRY(read_users(*users, name, path + ".users"));
    if (const YamlNode* below = node.child("accounts"))
      TRY(read_accounts(*below, name, path + ".accounts"));
    return {};
  }

  Result<void> read_users(const YamlNode& node, const std::string& account, const std::string& path) {
    if (node.shape == YamlNode::Shape::kMap) {
      for (const YamlNode& entry : node.children)
        TRY(read_user(entry, unescape(entry.key), account, path + "." + entry.key));
      return {};
    }
    std::vector<std::string> names;
    if (auto done = NamesForm::read(node, names); !done)
      return under(std::move(done).error(), path);
    YamlNode nothing;
    nothing.plain = true;
    nothing.begin = nothing.key_begin = node.begin;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (node.shape == YamlNode::Shape::kList)
        nothing.begin = nothing.key_begin = node.children[i].begin;
      TRY(read_user(nothing, names[i], account, path));
    }
    return {};
  }

  // "ann", or "ann/debug": in that partition only.
  Result<void> read_user(const YamlNode& node, const std::string& name, const std::string& account,
                         const std::string& path) {
    Association association;
    const auto slash = name.find('/');
    association.account = account;
    association.user = name.substr(0, slash);
    association.partition = slash == name.npos ? "" : name.substr(slash + 1);
    TRY(check_record_name(node, association.user));
    if (slash != name.npos)
      TRY(check_record_name(node, association.partition));
    association.meta.name = association_name(account, association.user, association.partition);
    TRY(read_keys(node, path, association));
    const std::string whole = association.meta.name;
    return add(Kind::kAssociation, whole, node, file_.associations, std::move(association));
  }

  Result<void> read_policy(const YamlNode& node) {
    Policy policy;
    policy.meta.name = "policy";
    TRY(read_keys(node, node.key, policy));
    file_.places.emplace("policy", format("line {}", node.key_begin.line));
    file_.policy = std::move(policy);
    return {};
  }

  Result<void> read_topology(const YamlNode& node) {
    TRY(need_map(node, node.key));
    file_.places.emplace("topology", format("line {}", node.key_begin.line));
    if (node.children.empty())
      return {};
    constexpr std::string_view kBesides[] = {"tree"};
    Topology topology;
    topology.meta.name = "topology";
    TRY(read_keys(node, node.key, topology, kBesides));
    const YamlNode* tree = node.child("tree");
    if (!tree)
      return under(wrong_at(node, "has no tree: names of each level, and the nodes of the innermost"), node.key);
    std::vector<std::string> path;
    std::map<std::string, std::string> holder;
    TRY(read_branch(*tree, topology, path, holder));
    file_.topology = std::move(topology);
    return {};
  }

  // A leaf nearer to the top than others stands for itself on the levels it skips.
  Result<void> read_branch(const YamlNode& node, Topology& topology, std::vector<std::string>& path,
                           std::map<std::string, std::string>& holder) {
    const std::string where = "topology.tree" + (path.empty() ? "" : "." + join(path, "."));
    if (node.shape == YamlNode::Shape::kMap && path.size() >= topology.levels.size())
      return under(wrong_at(node, format("lies deeper than the {} level(s)", topology.levels.size())), where);
    if (node.shape == YamlNode::Shape::kMap) {
      for (const YamlNode& child : node.children) {
        path.push_back(unescape(child.key));
        TRY(read_branch(child, topology, path, holder));
        path.pop_back();
      }
      return {};
    }
    if (path.empty())
      return under(wrong_at(node, "must have names"), where);
    TopologyLeaf leaf;
    if (auto done = HostsForm::read(node, leaf.nodes); !done)
      return under(std::move(done).error(), where);
    std::sort(leaf.nodes.begin(), leaf.nodes.end());
    for (const std::string& name : leaf.nodes)
      if (const auto [at, fresh] = holder.emplace(name, path.back()); !fresh)
        return under(wrong_at(node, format("node {} is on {} already", name, at->second)), where);
    leaf.path = path;
    leaf.path.resize(topology.levels.size(), path.back());
    topology.leaves.push_back(std::move(leaf));
    return {};
  }

  // A user of one account has it as the default, which needs no word.
  void settle_defaults() {
    std::map<std::string, std::vector<Association*>> by_user;
    for (Association& one : file_.associations) by_user[one.user].push_back(&one);
    for (auto& [user, own] : by_user) {
      const auto is_default = [](const Association* one) { return one->is_default; };
      const auto elsewhere = [&](const Association* one) { return one->account != own.front()->account; };
      if (std::any_of(own.begin(), own.end(), is_default) || std::any_of(own.begin(), own.end(), elsewhere))
        continue;
      const auto whole = std::find_if(own.begin(), own.end(), [](const auto* one) { return one->partition.empty(); });
      Association& only = whole == own.end() ? *own.front() : **whole;
      only.is_default = true;
      file_.implied_defaults.insert(only.meta.name);
    }
  }

  static constexpr std::string_view kAdministrators = "administrators";
  ClusterFile file_;
};

// --- what contradicts itself ---

Error contradiction(const ClusterFile& file, Kind kind, const std::string& name, std::string_view why) {
  const std::string words = record_words(kind, name);
  return invalid(format("{}{}: {}", place_of(file, words), words, why), words);
}

Result<void> check_classes(const ClusterFile& file) {
  std::map<std::string_view, const NodeClass*> class_of;
  for (const NodeClass& one : file.node_classes)
    for (const std::string& node : one.nodes) {
      if (node == "ALL" || !is_node_name(node))
        return contradiction(file, Kind::kNodeClass, one.meta.name,
                             format("\"{}\" is no name of a node; a class names each of its nodes", node));
      if (const auto [at, fresh] = class_of.emplace(node, &one); !fresh)
        return contradiction(
            file, Kind::kNodeClass, one.meta.name,
            format("node {} is in class {} already; a node is in one class at most", node, at->second->meta.name));
    }
  return {};
}

Result<void> check_defaults(const ClusterFile& file) {
  const Partition* first = nullptr;
  for (const Partition& partition : file.partitions) {
    if (partition.is_default && first)
      return contradiction(file, Kind::kPartition, partition.meta.name,
                           format("partition {} is the default already; there is one", first->meta.name));
    if (partition.is_default)
      first = &partition;
  }
  std::map<std::string_view, const Association*> defaults;
  for (const Association& one : file.associations)
    if (one.is_default)
      if (const auto [at, fresh] = defaults.emplace(one.user, &one); !fresh && at->second->account != one.account)
        return contradiction(file, Kind::kAssociation, one.meta.name,
                             format("account {} is the default of {} already", at->second->account, one.user));
  return {};
}

Result<void> check_account_circles(const ClusterFile& file) {
  std::map<std::string_view, const Account*> by_name;
  for (const Account& account : file.accounts) by_name.emplace(account.meta.name, &account);
  std::set<const Account*> settled;  // the way up from these ends
  for (const Account& account : file.accounts) {
    std::vector<const Account*> way = {&account};
    for (auto at = by_name.find(account.parent); at != by_name.end() && !settled.contains(at->second);
         at = by_name.find(at->second->parent)) {
      if (std::find(way.begin(), way.end(), at->second) != way.end())
        return contradiction(file, Kind::kAccount, at->second->meta.name,
                             format("would be below itself: it is below {}", at->second->parent));
      way.push_back(at->second);
    }
    settled.insert(way.begin(), way.end());
  }
  return {};
}

enum class Visit : unsigned char { kNew, kOpen, kDone };

bool preempts_in_circle(const std::map<std::string_view, const Qos*>& by_name, const Qos& qos,
                        std::map<std::string_view, Visit>& seen) {
  Visit& visit = seen[qos.meta.name];
  if (visit != Visit::kNew)
    return visit == Visit::kOpen;
  visit = Visit::kOpen;
  for (const std::string& next : qos.preempts)
    if (const auto at = by_name.find(next); at != by_name.end() && preempts_in_circle(by_name, *at->second, seen))
      return true;
  seen[qos.meta.name] = Visit::kDone;
  return false;
}

Result<void> check_qos_circles(const ClusterFile& file) {
  std::map<std::string_view, const Qos*> by_name;
  for (const Qos& qos : file.qos) by_name.emplace(qos.meta.name, &qos);
  std::map<std::string_view, Visit> seen;
  for (const Qos& qos : file.qos)
    if (preempts_in_circle(by_name, qos, seen))
      return contradiction(file, Kind::kQos, qos.meta.name, "its `preempts` lead back to itself");
  return {};
}

}  // namespace

}  // namespace wire

std::string record_words(Kind kind, std::string_view name) {
  if (kind == Kind::kAssociation)
    return format("association {}", name);
  const std::string_view one = wire::section_of(kind).one;
  return kind == Kind::kPolicy || kind == Kind::kTopology ? std::string(one) : format("{} {}", one, name);
}

std::string place_of(const ClusterFile& file, const std::string& words) {
  const auto at = file.places.find(words);
  return at == file.places.end() ? std::string() : at->second + ": ";
}

Result<void> check_cluster_file(const ClusterFile& file) {
  TRY(wire::check_classes(file));
  TRY(wire::check_defaults(file));
  TRY(wire::check_account_circles(file));
  return wire::check_qos_circles(file);
}

Result<ClusterFile> decode_cluster_file(std::string_view text) {
  return wire::ClusterFileReader().run(TRY(read_yaml(text)));
}

}  // namespace lockstep
