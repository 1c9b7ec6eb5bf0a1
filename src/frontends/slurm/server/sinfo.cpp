// Grouping: the texts of all columns that tell nodes apart form a key; the other columns are sums or ranges.
#include "frontends/slurm/server/sinfo.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "base/hostlist.h"
#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/server/job_facts.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/node_facts.h"
#include "frontends/slurm/server/row_text.h"
#include "frontends/slurm/server/show_text.h"
#include "frontends/slurm/server/states.h"

namespace lockstep::slurm {

namespace {

struct Member {
  const Node* node;
  const NodeHolding* holding;
};

// What the columns are made from: a whole group, or one node while keys are built.
struct Group {
  const ReadContext* context = nullptr;
  const Partition* partition = nullptr;
  std::vector<Member> members;  // may be empty: a partition without nodes has a row too

  const Member* first() const { return members.empty() ? nullptr : &members[0]; }
};

enum class Role : unsigned char {
  kPartition,  // of the partition: tells groups apart
  kNode,       // of the node: tells groups apart
  kSize,       // a number of the node: a range unless exact
  kSum,        // over the group
};

using Out = std::string&;
using Column = void (*)(Out, const Group&);
using Size = std::int64_t (*)(const Node&);

struct ColumnDef {
  std::string_view name;
  Role role;
  Column write;  // null for kSize
  Size size = nullptr;
};

void text(Out out, std::string_view value) { append_field_text(out, value); }
template <class Int>
void number(Out out, Int value) {
  append_field_number(out, value);
}

template <class F>
void of_node(Out out, const Group& group, F&& f) {
  if (group.first())
    text(out, f(*group.first()->node, *group.first()->holding));
  else
    text(out, "n/a");
}

CpuCounts sum_cpus(const Group& group) {
  CpuCounts sum;
  for (const Member& member : group.members) {
    const CpuCounts one = cpu_counts(*member.node, *member.holding);
    sum.allocated += one.allocated, sum.idle += one.idle, sum.other += one.other, sum.total += one.total;
  }
  return sum;
}

struct NodeCounts {
  std::size_t allocated = 0, idle = 0, other = 0;
};
NodeCounts count_nodes(const Group& group) {
  NodeCounts counts;
  for (const Member& member : group.members) {
    const bool busy = member.holding->running + member.holding->completing > 0;
    if (busy)
      ++counts.allocated;
    else if (node_usable(*member.node))
      ++counts.idle;
    else
      ++counts.other;
  }
  return counts;
}

std::string names_text(const Group& group, bool hosts) {
  std::vector<std::string> names;
  for (const Member& member : group.members)
    names.push_back(hosts && !member.node->hostname.empty() ? member.node->hostname : member.node->meta.name);
  sort_hosts(names);
  return compress_hostlist(names);
}

// By which sinfo orders groups: marked states first, then MIXED, ALLOCATED, IDLE, DOWN.
int state_order(const Group& group) {
  if (!group.first())
    return 0;
  const Node& node = *group.first()->node;
  int order = 0;
  if (node.link == NodeLink::kLost)
    order = 1;
  else
    switch (node_cpus(node, *group.first()->holding)) {
      case NodeCpus::kIdle: order = 2; break;
      case NodeCpus::kAllocated: order = 3; break;
      case NodeCpus::kMixed: order = 5; break;
    }
  return order + (node_drained(node) ? 200 : 0) + (node.link != NodeLink::kUp ? 100 : 0);
}

std::int64_t limit_of(Duration limit) { return limit >= kForever ? kUnlimited : limit.seconds(); }

// Sorted by name: sinfo's own (--Format), without dashes.
constexpr std::array kColumns = {
    ColumnDef{"allocmem", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node&, const NodeHolding& h) { return std::to_string(h.memory_mb); });
              }},
    ColumnDef{"allocnodes", Role::kPartition, [](Out o, const Group&) { text(o, "all"); }},
    ColumnDef{"available", Role::kPartition, [](Out o, const Group& g) { text(o, partition_state_short(*g.partition)); }},
    ColumnDef{"cluster", Role::kPartition, [](Out o, const Group& g) { text(o, g.context->cluster_name); }},
    ColumnDef{"comment", Role::kNode, [](Out o, const Group&) { text(o, "(null)"); }},
    ColumnDef{"cores", Role::kSize, nullptr,
              [](const Node& n) { return static_cast<std::int64_t>(n.cores / std::max(1u, n.sockets)); }},
    ColumnDef{"cpus", Role::kSize, nullptr, [](const Node& n) { return static_cast<std::int64_t>(n.cores); }},
    ColumnDef{"cpusload", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [&](const Node& n, const NodeHolding&) { return load_text(*g.context, n); });
              }},
    ColumnDef{"cpusstate", Role::kSum,
              [](Out o, const Group& g) {
                const CpuCounts c = sum_cpus(g);
                o += format("{}/{}/{}/{}", c.allocated, c.idle, c.other, c.total);
              }},
    ColumnDef{"defaulttime", Role::kPartition,
              [](Out o, const Group& g) {
                number(o, g.partition->time_default.us ? limit_of(g.partition->time_default) : kPartitionLimit);
              }},
    ColumnDef{"disk", Role::kSize, nullptr, [](const Node& n) { return n.tmp_disk_mb; }},
    ColumnDef{"features", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding&) {
                  return n.features.empty() ? std::string("(null)") : join(n.features, ",");
                });
              }},
    ColumnDef{"freemem", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [&](const Node& n, const NodeHolding&) { return free_memory_text(*g.context, n); });
              }},
    ColumnDef{"gres", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding&) { return gres_text(n); });
              }},
    ColumnDef{"gresused", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding& h) { return gres_used_text(n, h); });
              }},
    ColumnDef{"groups", Role::kPartition, [](Out o, const Group&) { text(o, "all"); }},
    ColumnDef{"maxcpuspernode", Role::kPartition, [](Out o, const Group&) { text(o, "UNLIMITED"); }},
    ColumnDef{"memory", Role::kSize, nullptr, [](const Node& n) { return n.memory_mb; }},
    ColumnDef{"nodeaddr", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding&) { return n.address; });
              }},
    ColumnDef{"nodeai", Role::kSum,
              [](Out o, const Group& g) {
                const NodeCounts c = count_nodes(g);
                o += format("{}/{}", c.allocated, c.idle);
              }},
    ColumnDef{"nodeaiot", Role::kSum,
              [](Out o, const Group& g) {
                const NodeCounts c = count_nodes(g);
                o += format("{}/{}/{}/{}", c.allocated, c.idle, c.other, g.members.size());
              }},
    ColumnDef{"nodehost", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding&) {
                  return n.hostname.empty() ? n.meta.name : n.hostname;
                });
              }},
    ColumnDef{"nodelist", Role::kSum, [](Out o, const Group& g) { text(o, names_text(g, false)); }},
    ColumnDef{"nodes", Role::kSum, [](Out o, const Group& g) { number(o, g.members.size()); }},
    ColumnDef{"oversubscribe", Role::kPartition, [](Out o, const Group&) { text(o, "NO"); }},
    ColumnDef{"partition", Role::kPartition,
              [](Out o, const Group& g) {
                text(o, g.partition->meta.name);
                if (g.partition->is_default)
                  o += '*';
              }},
    ColumnDef{"partitionname", Role::kPartition, [](Out o, const Group& g) { text(o, g.partition->meta.name); }},
    ColumnDef{"preemptmode", Role::kPartition, [](Out o, const Group&) { text(o, "OFF"); }},
    ColumnDef{"priorityjobfactor", Role::kPartition, [](Out o, const Group& g) { number(o, g.partition->priority); }},
    ColumnDef{"prioritytier", Role::kPartition, [](Out o, const Group& g) { number(o, g.partition->tier); }},
    ColumnDef{"reason", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding&) {
                  const NodeReason reason = reason_of(n);
                  return reason.words.empty() ? "none" : reason.words;
                });
              }},
    ColumnDef{"reservation", Role::kNode, [](Out, const Group&) {}},
    ColumnDef{"root", Role::kPartition, [](Out o, const Group&) { text(o, "no"); }},
    ColumnDef{"size", Role::kPartition,
              [](Out o, const Group& g) {
                text(o, g.partition->nodes_max ? format("1-{}", g.partition->nodes_max) : "1-infinite");
              }},
    ColumnDef{"socketcorethread", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding&) {
                  return format("{}:{}:{}", n.sockets, n.cores / std::max(1u, n.sockets), n.threads_per_core);
                });
              }},
    ColumnDef{"sockets", Role::kSize, nullptr, [](const Node& n) { return static_cast<std::int64_t>(n.sockets); }},
    ColumnDef{"statecompact", Role::kNode, [](Out o, const Group& g) { of_node(o, g, slurm_node_state_compact); }},
    ColumnDef{"statecomplete", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding& h) { return lower(slurm_node_state_flags(n, h)); });
              }},
    ColumnDef{"statelong", Role::kNode, [](Out o, const Group& g) { of_node(o, g, slurm_node_state); }},
    ColumnDef{"stateorder", Role::kSum, [](Out o, const Group& g) { number(o, state_order(g)); }},
    ColumnDef{"threads", Role::kSize, nullptr,
              [](const Node& n) { return static_cast<std::int64_t>(n.threads_per_core); }},
    ColumnDef{"time", Role::kPartition, [](Out o, const Group& g) { number(o, limit_of(g.partition->time_max)); }},
    ColumnDef{"timestamp", Role::kNode,
              [](Out o, const Group& g) {
                const Node* node = g.first() ? g.first()->node : nullptr;
                const NodeReason reason = node ? reason_of(*node) : NodeReason();
                number(o, reason.words.empty() ? 0 : wall_seconds(*g.context, reason.at));
              }},
    ColumnDef{"user", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [&](const Node& n, const NodeHolding&) {
                  const NodeReason reason = reason_of(n);
                  return reason.words.empty() ? "Unknown" : reason.by ? user_name(*g.context, reason.by) : "root";
                });
              }},
    ColumnDef{"version", Role::kNode,
              [](Out o, const Group& g) {
                of_node(o, g, [](const Node& n, const NodeHolding&) { return n.version; });
              }},
    ColumnDef{"weight", Role::kSize, nullptr, [](const Node& n) { return static_cast<std::int64_t>(n.weight); }},
};
static_assert(std::is_sorted(kColumns.begin(), kColumns.end(),
                             [](const ColumnDef& a, const ColumnDef& b) { return a.name < b.name; }));

void write_size(Out out, const Group& group, Size size) {
  if (group.members.empty()) {
    out += '0';
    return;
  }
  std::int64_t low = INT64_MAX, high = INT64_MIN;
  for (const Member& member : group.members) {
    low = std::min(low, size(*member.node));
    high = std::max(high, size(*member.node));
  }
  number(out, low);
  if (high > low)
    out += '+';
}

struct Request {
  std::vector<const ColumnDef*> columns;
  std::vector<std::string> partitions;
  std::vector<std::string> nodes;  // sorted; empty = all
  NodeStateSet states;
  bool each_node = false, exact = false, reasons = false, responding = false, dead = false;

  bool wants(const Member& member) const {
    const Node& node = *member.node;
    return (nodes.empty() || std::binary_search(nodes.begin(), nodes.end(), node.meta.name)) &&
           (states.empty() || states.has(node, *member.holding)) && (!reasons || !reason_of(node).words.empty()) &&
           (!responding || node.link == NodeLink::kUp) && (!dead || node.link != NodeLink::kUp);
  }
  bool filters_nodes() const { return !nodes.empty() || !states.empty() || reasons || responding || dead; }
};

Result<Request> parse(const PageRequest& request) {
  Request out;
  for (const std::string& name : TRY(columns_of(request))) {
    const auto it = std::lower_bound(kColumns.begin(), kColumns.end(), name,
                                     [](const ColumnDef& def, const std::string& wanted) { return def.name < wanted; });
    if (it == kColumns.end() || it->name != name)
      return invalid("no such column: " + name, "columns");
    out.columns.push_back(&*it);
  }
  if (out.columns.empty())
    return invalid("columns are missing", "columns");
  out.partitions = partitions_asked(request);
  if (const std::string& nodes = query_of(request, "nodes"); !nodes.empty())
    out.nodes = TRY(expand_hostlist(nodes, kHostsAskedMax));
  std::sort(out.nodes.begin(), out.nodes.end());
  out.states = TRY(NodeStateSet::asked(request));
  const auto flag = [&](std::string_view name) { return flag_of(request, name); };
  out.each_node = flag("each_node"), out.exact = flag("exact"), out.reasons = flag("reasons");
  out.responding = flag("responding"), out.dead = flag("dead");
  return out;
}

std::string key_of(const Request& request, const Group& single) {
  std::string key;
  for (const ColumnDef* column : request.columns) {
    const bool tells_apart = column->role == Role::kPartition || column->role == Role::kNode;
    if (tells_apart)
      column->write(key, single);
    else if (column->role == Role::kSize && request.exact)
      write_size(key, single, column->size);
    key += '\t';
  }
  if (request.each_node && single.first())
    key += single.first()->node->meta.name;
  return key;
}

// The page in the making, a piece at a time: nodes and partitions as they were when it began.
class SinfoWork {
 public:
  SinfoWork(const ReadContext& context, Request request)
      : context_(context), request_(std::move(request)), holdings_(node_holdings(context)) {
    for (const auto& [name, partition] : context.tables.partitions)
      if (request_.partitions.empty() ||
          std::find(request_.partitions.begin(), request_.partitions.end(), name) != request_.partitions.end())
        partitions_.push_back(partition);
  }

  // False: that was the last piece.
  bool next(std::string& body) {
    if (partition_ < partitions_.size()) {
      gather();
      if (partition_ == partitions_.size())
        sort();
      return true;
    }
    if (written_ < groups_.size())
      write(body, groups_[written_++]);
    return written_ < groups_.size();
  }

 private:
  // The next nodes of the partition that is being looked at.
  void gather() {
    static const NodeHolding kNothing;
    constexpr std::size_t kAtOnce = 256;
    const Partition& partition = *partitions_[partition_];
    if (node_ == 0) {
      nodes_.push_back(partition_nodes(context_.tables, partition));
      std::sort(nodes_.back().begin(), nodes_.back().end(),
                [](const auto& a, const auto& b) { return host_less(a->meta.name, b->meta.name); });
      any_ = false;
    }
    const std::vector<Ref<Node>>& nodes = nodes_.back();
    for (std::size_t n = 0; n < kAtOnce && node_ < nodes.size(); ++n, ++node_) {
      const auto held = holdings_.find(nodes[node_]->id);
      const Member member{nodes[node_].get(), held == holdings_.end() ? &kNothing : &held->second};
      if (request_.wants(member)) {
        any_ = true;
        add(Group{&context_, &partition, {member}});
      }
    }
    if (node_ < nodes.size())
      return;
    if (!any_ && (!request_.filters_nodes() || request_.states.is_of_none()) && !request_.each_node)
      add(Group{&context_, &partition, {}});
    node_ = 0;
    ++partition_;
  }

  void add(const Group& single) {
    const auto [it, fresh] = by_key_.emplace(key_of(request_, single), groups_.size());
    if (fresh) {
      groups_.push_back(single);
      members_.emplace_back();
    }
    // A node may be in several partitions that share a row; it counts once.
    Group& group = groups_[it->second];
    for (const Member& member : single.members)
      if (members_[it->second].insert(member.node).second && !fresh)
        group.members.push_back(member);
  }

  void sort() {
    const bool by_state = std::any_of(request_.columns.begin(), request_.columns.end(),
                                      [](const ColumnDef* c) { return c->name.starts_with("state"); });
    if (request_.each_node)
      std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
        return host_less(a.first()->node->meta.name, b.first()->node->meta.name);
      });
    else if (by_state)
      std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
        if (a.partition != b.partition)
          return a.partition->meta.name < b.partition->meta.name;
        return state_order(a) > state_order(b);
      });
  }

  void write(std::string& body, const Group& group) const {
    for (const ColumnDef* column : request_.columns) {
      if (column->role == Role::kSize)
        write_size(body, group, column->size);
      else
        column->write(body, group);
      body += '\t';
    }
    body.back() = '\n';
  }

  const ReadContext& context_;
  Request request_;
  std::map<NodeId, NodeHolding> holdings_;
  std::vector<Ref<Partition>> partitions_;
  std::vector<std::vector<Ref<Node>>> nodes_;  // of each partition, as far as they are gathered
  std::size_t partition_ = 0, node_ = 0, written_ = 0;
  bool any_ = false;  // node of the partition is wanted
  std::vector<Group> groups_;
  std::vector<std::unordered_set<const Node*>> members_;  // of each group
  std::unordered_map<std::string, std::size_t> by_key_;
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 42> kStateWords = {{
    {"alloc", "alloc"},   {"allocated", "alloc"}, {"blocked", ""},      {"block", ""},         {"cloud", ""},
    {"comp", "comp"},     {"completing", "comp"}, {"down", "down"},     {"drain", "drain*"},   {"drained", "drain"},
    {"draining", "drng"}, {"drng", "drng"},       {"err", ""},          {"error", ""},         {"fail", ""},
    {"failg", ""},        {"failing", ""},        {"future", ""},       {"futr", ""},          {"idle", "idle"},
    {"inval", ""},        {"maint", ""},          {"mix", "mix"},       {"mixed", "mix"},      {"no_respond", "no"},
    {"npc", ""},          {"perfctrs", ""},       {"planned", "plnd"},  {"plnd", "plnd"},      {"pow_dn", ""},
    {"pow_up", ""},       {"power_down", ""},     {"powered_down", ""}, {"powering_down", ""}, {"powering_up", ""},
    {"power_up", ""},     {"reboot", ""},         {"reserved", ""},     {"resv", ""},          {"unk", "unk"},
    {"unknown", "unk"},   {"boot", ""},
}};

}  // namespace

Result<NodeStateSet> NodeStateSet::parse(std::string_view text_) {
  NodeStateSet set;
  for (const std::string& part : items_of(text_)) {
    const std::string name = lower(trim(part));
    if (name == "all") {
      set.words_.assign(1, "all");
      return set;
    }
    const auto it =
        std::find_if(kStateWords.begin(), kStateWords.end(), [&](const auto& w) { return w.first == name; });
    if (it == kStateWords.end())
      return invalid(format("Bad state string: \"{}\"", part), "states");
    set.words_.emplace_back(it->second);
  }
  return set;
}

Result<NodeStateSet> NodeStateSet::asked(const PageRequest& request) {
  NodeStateSet set = TRY(parse(query_of(request, "states")));
  set.is_of_none_ = set.words_.empty() && is_given(request, "states");
  return set;
}

std::vector<std::string> partitions_asked(const PageRequest& request) {
  std::vector<std::string> names = items_of(query_of(request, "partition"));
  if (names.empty() && is_given(request, "partition"))
    names.emplace_back();
  return names;
}

bool NodeStateSet::has(const Node& node, const NodeHolding& holding) const {
  std::string state = slurm_node_state_compact(node, holding);
  while (!state.empty() && (state.back() == '*' || state.back() == '+' || state.back() == '-')) state.pop_back();
  return std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
    return word == "all" || word == state || (word == "drain*" && node_drained(node)) ||
           (word == "no" && node.link != NodeLink::kUp) || (word == "idle" && state == "plnd") ||
           (word == "down" && node.link == NodeLink::kLost);
  });
}

PageReply sinfo_page(const ReadContext& context, const PageRequest& page_request) {
  auto request = parse(page_request);
  if (!request)
    return refusal(400, request.error().message);
  PageReply reply;
  reply.more = [work = std::make_shared<SinfoWork>(context, std::move(*request))](std::string& body) {
    return work->next(body);
  };
  return reply;
}

}  // namespace lockstep::slurm
