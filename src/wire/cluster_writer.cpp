// Records -> cluster.yaml.
#include <algorithm>

#include "base/text.h"
#include "wire/cluster_file.h"
#include "wire/cluster_keys.h"

namespace lockstep {

namespace wire {

namespace {

constexpr std::size_t kColumnsMax = 110;
constexpr std::size_t kNestMost = 8;  // accounts in accounts; what lies deeper names its parent

class ClusterFileWriter {
 public:
  explicit ClusterFileWriter(const ClusterFile& file) : file_(file) {
    for (const Account& account : file.accounts) by_parent_[account.parent].push_back(&account);
    for (const Association& one : file.associations) {
      by_account_[one.account].push_back(&one);
      accounts_of_[one.user].insert(one.account);
    }
    for (const Account& account : file.accounts) named_.insert(account.meta.name);
  }

  std::string run() {
    if (file_.administrators)
      line(0, "administrators", FileValue::list(*file_.administrators));
    section("nodes", file_.node_classes);
    section("partitions", file_.partitions);
    section("qos", file_.qos);
    accounts();
    licences();
    section("reservations", file_.reservations);
    section("health_checks", file_.health_checks);
    if (file_.policy)
      policy(*file_.policy);
    if (file_.topology)
      topology(*file_.topology);
    return std::move(out_);
  }

 private:
  static std::string indent(std::size_t level) { return std::string(2 * level, ' '); }
  static std::string name_text(std::string_view name) { return yaml_scalar(name, YamlPlace::kBrackets); }

  void begin(std::string_view word) {
    if (!out_.empty())
      out_ += '\n';
    out_ += word;
    out_ += ":\n";
  }

  void line(std::size_t level, std::string_view key, const FileValue& value) {
    const std::string start = format("{}{}: ", indent(level), name_text(key));
    const std::string text = value.yaml();
    if (value.shape == YamlNode::Shape::kScalar || start.size() + text.size() <= kColumnsMax || value.items.empty()) {
      out_ += start + text + "\n";
      return;
    }
    out_ += format("{}{}:\n", indent(level), name_text(key));
    for (const auto& [name, item] : value.items)
      out_ += value.shape == YamlNode::Shape::kMap
                  ? format("{}{}: {}\n", indent(level + 1), name_text(name), value.literal ? item : name_text(item))
                  : format("{}- {}\n", indent(level + 1), name_text(item));
  }

  template <class T>
  void keys(std::size_t level, const T& record) {
    for (const FileKey<T>& key : file_keys<T>())
      if (is_said(key, record))
        line(level, key.name, key.write(record));
  }

  template <class T>
  static bool says_nothing(const T& record) {
    const auto keys = file_keys<T>();
    return std::none_of(keys.begin(), keys.end(), [&](const FileKey<T>& key) { return is_said(key, record); });
  }

  template <class T>
  void named(std::size_t level, const T& record) {
    const bool empty = says_nothing(record);
    out_ += format("{}{}:{}\n", indent(level), name_text(record.meta.name), empty ? " {}" : "");
    keys(level + 1, record);
  }

  template <class T>
  void section(std::string_view word, const std::vector<T>& records) {
    if (records.empty())
      return;
    begin(word);
    for (const T& record : records) named(1, record);
  }

  void policy(const Policy& policy) {
    begin("policy");
    if (says_nothing(policy))
      out_.insert(out_.size() - 1, " {}");
    keys(1, policy);
  }

  void licences() {
    if (file_.licences.empty())
      return;
    begin("licences");
    for (const Licence& licence : file_.licences) line(1, licence.meta.name, CountForm::write(licence.total));
  }

  // --- accounts ---

  void accounts() {
    if (file_.accounts.empty() && file_.associations.empty())
      return;
    begin("accounts");
    for (const Account& account : file_.accounts)
      if (account.parent.empty() || !named_.contains(account.parent))
        write_account(1, account);
    while (!deep_.empty()) write_account(1, *deep_.back());  // each takes itself off the list
    for (const Account& account : file_.accounts)            // in a circle, which nobody leads to
      if (!written_.contains(account.meta.name))
        write_account(1, account);
    for (const auto& [name, users] : by_account_)
      if (!named_.contains(name)) {
        Account account;
        account.meta.name = name;
        write_account(1, account);
      }
  }

  void write_account(std::size_t level, const Account& account) {
    std::erase(deep_, &account);
    if (!written_.insert(account.meta.name).second)
      return;
    const bool names_parent = level == 1 && !account.parent.empty();
    const auto users = by_account_.find(account.meta.name);
    const auto below = by_parent_.find(account.meta.name);
    const bool has_users = users != by_account_.end(), has_below = below != by_parent_.end();
    const bool empty = says_nothing(account) && !names_parent && !has_users && !has_below;
    out_ += format("{}{}:{}\n", indent(level), name_text(account.meta.name), empty ? " {}" : "");
    if (names_parent)
      line(level + 1, "parent", FileValue::text(account.parent));
    keys(level + 1, account);
    if (has_users)
      write_users(level + 1, users->second);
    if (has_below)
      write_below(level + 1, below->second);
  }

  void write_below(std::size_t level, const std::vector<const Account*>& below) {
    if (level > 2 * kNestMost) {
      deep_.insert(deep_.end(), below.begin(), below.end());
      return;
    }
    std::vector<const Account*> fresh;
    for (const Account* account : below)
      if (!written_.contains(account->meta.name))
        fresh.push_back(account);
    if (fresh.empty())
      return;
    out_ += format("{}accounts:\n", indent(level));
    for (const Account* account : fresh) write_account(level + 1, *account);
  }

  // Of a user's only account nobody needs to be told that it is the default.
  Association plain_association(const Association& association) const {
    Association out = association;
    out.is_default = out.is_default && accounts_of_.at(association.user).size() > 1;
    return out;
  }

  static std::string user_key(const Association& one) {
    return one.partition.empty() ? one.user : one.user + "/" + one.partition;
  }

  void write_users(std::size_t level, const std::vector<const Association*>& users) {
    std::vector<std::string> names;
    bool all_plain = true;
    for (const Association* user : users) {
      names.push_back(user_key(*user));
      all_plain = all_plain && says_nothing(plain_association(*user));
    }
    if (all_plain)
      return line(level, "users", FileValue::list(names));
    out_ += format("{}users:\n", indent(level));
    for (const Association* user : users) write_user(level + 1, plain_association(*user));
  }

  void write_user(std::size_t level, const Association& user) {
    std::string text;
    for (const FileKey<Association>& key : file_keys<Association>())
      if (is_said(key, user))
        text += format("{}{}: {}", text.empty() ? "" : ", ", key.name, key.write(user).yaml(YamlPlace::kBrackets));
    const std::string start = format("{}{}:", indent(level), name_text(user_key(user)));
    if (start.size() + text.size() + 3 <= kColumnsMax) {
      out_ += format("{} {{{}}}\n", start, text);
      return;
    }
    out_ += start + "\n";
    keys(level + 1, user);
  }

  // --- topology ---

  void topology(const Topology& topology) {
    begin("topology");
    keys(1, topology);
    std::vector<const TopologyLeaf*> leaves;
    for (const TopologyLeaf& leaf : topology.leaves) leaves.push_back(&leaf);
    branch(1, "tree", leaves, 0);
  }

  // How many names say the path: a leaf that stands for itself on the levels it skips is named once.
  static std::size_t depth_of(const TopologyLeaf& leaf) {
    std::size_t depth = leaf.path.size();
    while (depth > 1 && leaf.path[depth - 1] == leaf.path[depth - 2]) --depth;
    return depth;
  }

  void branch(std::size_t level, std::string_view name, const std::vector<const TopologyLeaf*>& leaves,
              std::size_t depth) {
    if (leaves.size() == 1 && depth >= depth_of(*leaves[0]))
      return line(level, name, HostsForm::write(leaves[0]->nodes));
    out_ += format("{}{}:{}\n", indent(level), name_text(name), leaves.empty() ? " {}" : "");
    std::vector<std::string> order;
    std::map<std::string, std::vector<const TopologyLeaf*>> below;
    for (const TopologyLeaf* leaf : leaves) {
      const std::string& next = leaf->path[std::min(depth, leaf->path.size() - 1)];
      if (below[next].empty())
        order.push_back(next);
      below[next].push_back(leaf);
    }
    for (const std::string& next : order) branch(level + 1, next, below[next], depth + 1);
  }

  const ClusterFile& file_;
  std::string out_;
  std::map<std::string, std::vector<const Account*>> by_parent_;
  std::map<std::string, std::vector<const Association*>> by_account_;
  std::map<std::string, std::set<std::string>> accounts_of_;  // by user
  std::set<std::string> named_, written_;
  std::vector<const Account*> deep_;
};

}  // namespace

}  // namespace wire

std::string encode_cluster_file(const ClusterFile& file) { return wire::ClusterFileWriter(file).run(); }

}  // namespace lockstep
