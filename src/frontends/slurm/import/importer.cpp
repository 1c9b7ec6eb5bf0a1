#include "frontends/slurm/import/importer.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/hostlist.h"
#include "base/nearest.h"
#include "base/text.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/import/accounts_dump.h"
#include "model/bounds.h"
#include "wire/topology_file.h"

namespace lockstep::slurm {

namespace {

constexpr std::size_t kNotesMax = 50;
constexpr std::size_t kHintsMax = 100;              // looking for what may be meant takes time
constexpr std::size_t kEntriesMax = 600'000;        // of the report
constexpr std::size_t kNamesMentioned = 2'000'000;  // of nodes, in all lines together

Error wrong(const std::string& file, const ConfWord& word, std::string_view what) {
  return invalid(format("{}:{}:{}: {}", file, word.line, word.column, what), file);
}

bool is_all(std::string_view name) { return name.size() == 3 && lower(name) == "all"; }
bool is_default(const ConfWord& word) { return lower(word.value) == "default"; }

// Cores that a node ought to have. CPUs are hardware threads where a line says how many a core has.
std::uint32_t cores_of(const NodeDraft& node) {
  const std::uint64_t threads = std::max(1u, node.threads_per_core);
  const std::uint64_t sockets =
      node.sockets > 0 ? node.sockets : std::uint64_t{node.sockets_per_board} * std::max(1u, node.boards);
  const bool says_all = node.cores_per_socket > 0 && (sockets > 0 || node.cpus == 0);
  const std::uint64_t cores = says_all        ? std::max<std::uint64_t>(1, sockets) * node.cores_per_socket
                              : node.cpus > 0 ? std::max<std::uint64_t>(1, node.cpus / threads)
                                              : sockets;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(cores, kAmountMax));
}

// "gpu-node-07" is of the class "gpu-node".
std::string class_name_of(std::string_view node) {
  while (!node.empty() &&
         ((node.back() >= '0' && node.back() <= '9') || node.back() == '-' || node.back() == '_' || node.back() == '.'))
    node.remove_suffix(1);
  return node.empty() ? "nodes" : std::string(node);
}

struct NodeLine {
  std::vector<std::string> names;
  NodeDraft draft;
};

class Importer {
 public:
  Importer(const ImportPaths& paths, const ReadFile& read) : paths_(paths), read_(read) {
    site_.policy.weight_fair_share = site_.policy.weight_partition = site_.policy.weight_qos = 0;
    site_.policy.preempt_mode = PreemptMode::kOff;
    partition_default_.record.priority = 1;
  }

  Result<Imported> run() {
    for (const ConfLine& line : TRY(read_conf(paths_.slurm_conf, read_))) TRY(take_line(line));
    TRY(check_known());
    TRY(read_gres());
    TRY(read_topology());
    if (!paths_.qos.empty())
      TRY(read_qos_table(site_.file, report_, paths_.qos, TRY(read_(paths_.qos))));
    if (!paths_.accounts.empty())
      TRY(read_accounts(site_.file, report_, paths_.accounts, TRY(read_(paths_.accounts))));
    TRY(make_partitions());
    make_classes();
    drop_what_has_no_partition();
    settle_default_qos();
    name_missing_accounts();
    name_missing_qos();
    settle_policy();
    if (report_.entries.size() >= kEntriesMax)
      return invalid(format("{}: more than {} settings", paths_.slurm_conf, kEntriesMax), "slurm.conf");
    return Imported{std::move(site_.file), std::move(report_)};
  }

 private:
  // --- settings ---

  void note(std::string words) {
    if (report_.notes.size() < kNotesMax)
      report_.notes.push_back(std::move(words));
    else if (report_.notes.size() == kNotesMax)
      report_.notes.push_back("there is more to note, which is left out here");
  }

  void add(const ConfLine& line, const ConfWord& word, std::string value, Fate fate) {
    if (report_.entries.size() >= kEntriesMax)
      return;
    const ConfWord& first = line.words.front();
    const bool is_first = &word == &first;
    const auto shown_value = [](const ConfWord& of, std::string text) {
      return lower(of.key).ends_with("pass") ? std::string("(not shown)") : std::move(text);
    };
    report_.entries.push_back({line.file, word.line, word.column, word.key, shown_value(word, std::move(value)),
                               is_first ? "" : format("{}={}", first.key, shown_value(first, first.value)),
                               fate.verdict, std::move(fate.words)});
  }

  Fate unknown(const ConfTable& table, std::string_view name) {
    constexpr std::string_view kLines[] = {"nodename", "partitionname", "nodeset", "downnodes"};
    std::string_view meant = ++unknown_ > kHintsMax ? std::string_view() : nearest_key(table, name);
    if (&table == &kClusterKeys && meant.empty() && unknown_ <= kHintsMax)
      meant = nearest(lower(name), kLines);
    return {Verdict::kUnknown, meant.empty() ? format("Slurm has no such parameter in {}", table.title)
                                             : format("Slurm has no such parameter: is {} meant?", meant)};
  }

  void take_options(const ConfTable& table, const ConfLine& line, const ConfWord& word) {
    if (lower(word.value) == "none")
      return add(line, word, word.value, {Verdict::kTaken, "none is set"});
    for (const std::string& text : split(word.value, ',')) {
      const std::string option(trim(text));
      if (option.empty())
        continue;
      const std::size_t equals = option.find('=');
      const std::string name = option.substr(0, equals);
      const ConfKey* key = find_key(table, name);
      const std::string value = equals == std::string::npos ? std::string() : option.substr(equals + 1);
      add(line, word, option, key ? settle(*key, site_, {name, value, word.line, word.column}) : unknown(table, name));
    }
  }

  void take_word(const ConfTable& table, const ConfLine& line, const ConfWord& word) {
    const ConfKey* key = find_key(table, word.key);
    known_ += key ? 1 : 0;
    if (!key)
      return add(line, word, word.value, unknown(table, word.key));
    if (key->options)
      return take_options(*key->options, line, word);
    add(line, word, word.value, settle(*key, site_, word));
  }

  void take_words(const ConfTable& table, const ConfLine& line) {
    for (const ConfWord& word : line.words) take_word(table, line, word);
  }

  // Slurm takes the last of several lines.
  void note_repeated(const ConfLine& line, const ConfWord& word) {
    const std::string key = lower(word.key);
    const auto [at, is_new] = seen_.emplace(key, word.line);
    if (!is_new && key != "slurmctldhost")
      note(format("{}:{}: {} is there already, in line {}: the later one counts", line.file, word.line, word.key,
                  at->second));
    at->second = word.line;
  }

  Result<void> take_line(const ConfLine& line) {
    if (line.is_include) {
      add(line, line.words.front(), line.words.front().value, {Verdict::kTaken, "the file is read in its place"});
      return {};
    }
    struct Kind {
      std::string_view word;
      Result<void> (Importer::*take)(const ConfLine& line);
    };
    static constexpr Kind kKinds[] = {{"nodename", &Importer::node_line},
                                      {"partitionname", &Importer::partition_line},
                                      {"nodeset", &Importer::node_set_line},
                                      {"downnodes", &Importer::down_line},
                                      {"frontendname", &Importer::frontend_line}};
    for (const Kind& kind : kKinds)
      if (kind.word == lower(line.words.front().key))
        return (this->*kind.take)(line);
    for (const ConfWord& word : line.words) {
      note_repeated(line, word);
      ConfLine alone{line.file, {word}, false};
      take_word(kClusterKeys, alone, alone.words.front());
    }
    return {};
  }

  Result<void> down_line(const ConfLine& line) { return take_words(kDownNodesKeys, line), Result<void>(); }
  Result<void> frontend_line(const ConfLine& line) { return take_words(kFrontendKeys, line), Result<void>(); }

  Result<void> check_known() const {
    if (report_.entries.empty())
      return invalid(format("{}: there is no setting in it: is this a slurm.conf?", paths_.slurm_conf), "slurm.conf");
    if (known_ == 0)
      return invalid(format("{}: none of its {} settings is one of Slurm's: is this a slurm.conf?", paths_.slurm_conf,
                            report_.entries.size()),
                     "slurm.conf");
    return {};
  }

  // Names of a host list. All lists together are bounded: each may be short and mean very many.
  Result<std::vector<std::string>> names_in(const std::string& text) {
    auto names = TRY(expand_hostlist(text, kAllNodesMax));
    mentioned_ += names.size();
    if (mentioned_ > kNamesMentioned)
      return invalid(format("nodes are named more than {} times in these files", kNamesMentioned));
    return names;
  }

  // --- nodes ---

  Result<void> node_line(const ConfLine& line) {
    const ConfWord& first = line.words.front();
    site_.node = node_default_;
    take_words(kNodeKeys, line);
    if (is_default(first)) {
      node_default_ = site_.node;
      return {};
    }
    auto names = names_in(first.value);
    if (!names)
      return wrong(line.file, first, names.error().message);
    for (const std::string& name : *names) {
      if (!is_node_name(name) || is_all(name))
        return wrong(line.file, first, format("\"{}\" is no name of a node", name));
      const auto [at, is_new] = nodes_.emplace(name, Place{line.file, first.line});
      if (!is_new)
        return wrong(line.file, first,
                     format("node {} is there already, in {}:{}", name, at->second.file, at->second.line));
    }
    if (nodes_.size() > kAllNodesMax)
      return wrong(line.file, first, format("more than {} nodes", kAllNodesMax));
    node_lines_.push_back({std::move(*names), site_.node});
    return {};
  }

  Result<void> node_set_line(const ConfLine& line) {
    site_.node_set = {};
    take_words(kNodeSetKeys, line);
    node_sets_[site_.node_set.name].push_back(site_.node_set);
    return {};
  }

  using Shape =
      std::tuple<std::vector<std::string>, std::uint32_t, std::uint32_t, std::int64_t, std::uint32_t, std::string>;

  // Nodes that are alike are one class, whichever lines they stand in.
  void make_classes() {
    std::map<Shape, std::size_t> classes;
    ClassNames names;
    bool counts_threads = false;
    for (const NodeLine& line : node_lines_) {
      const NodeDraft& draft = line.draft;
      counts_threads = counts_threads || (draft.cpus > 1 && draft.threads_per_core == 0 && draft.cores_per_socket == 0);
      for (const std::string& node : line.names) {
        const Shape shape{draft.features,  draft.weight, cores_of(draft),
                          draft.memory_mb, draft.gpus,   gpu_type_of(node, draft)};
        const auto [at, is_new] = classes.emplace(shape, site_.file.node_classes.size());
        if (is_new)
          site_.file.node_classes.push_back(new_class(node, shape, names));
        site_.file.node_classes[at->second].nodes.push_back(node);
      }
    }
    if (std::any_of(node_lines_.begin(), node_lines_.end(),
                    [](const NodeLine& line) { return line.draft.threads_per_core > 1; }))
      note(
          "ThreadsPerCore= above 1: a CPU is a core here, its threads come with it. What counts CPUs (-n, -c, limits "
          "of cpu, DefMemPerCPU, weights of billing) counts cores now: halve or double the figures where they were "
          "meant for threads");
    if (counts_threads)
      note(
          "CPUs= without ThreadsPerCore= or CoresPerSocket= is taken for cores: lower `cores` of the class where these "
          "are "
          "hardware threads");
  }

  struct ClassNames {
    std::set<std::string> taken;
    std::map<std::string, int> last;  // number behind a name: "gpu-3"
  };
  static NodeClass new_class(const std::string& node, const Shape& shape, ClassNames& names) {
    NodeClass out;
    const std::string base = class_name_of(node);
    out.meta.name = base;
    int& number = names.last.emplace(base, 1).first->second;
    while (!names.taken.insert(out.meta.name).second) out.meta.name = format("{}-{}", base, ++number);
    std::tie(out.features, out.weight, out.cores, out.memory_mb, out.gpus, out.gpu_type) = shape;
    return out;
  }

  // --- gres.conf ---

  std::string gpu_type_of(const std::string& node, const NodeDraft& draft) const {
    if (!draft.gpu_type.empty() || draft.gpus == 0 || draft.gpu_types_differ)
      return draft.gpu_type;
    const auto named = gres_types_.find(node);
    const std::set<std::string>& types = named == gres_types_.end() ? gres_types_of_all_ : named->second;
    return types.size() == 1 ? *types.begin() : "";
  }

  Result<std::vector<ConfLine>> lines_of(const std::string& path, bool is_needed) {
    if (path.empty())
      return std::vector<ConfLine>{};
    auto lines = read_conf(path, read_);
    if (!lines && lines.error().code == Errc::kNotFound && !is_needed)
      return std::vector<ConfLine>{};
    return lines;
  }

  Result<void> read_gres() {
    for (const ConfLine& line : TRY(lines_of(paths_.gres_conf, paths_.gres_must))) TRY(gres_line(line));
    return {};
  }

  Result<void> gres_line(const ConfLine& line) {
    if (line.is_include)
      return take_line(line);
    const auto value = [&](std::string_view key) -> const ConfWord* {
      for (const ConfWord& word : line.words)
        if (lower(word.key) == key)
          return &word;
      return nullptr;
    };
    const ConfWord *name = value("name"), *type = value("type"), *nodes = value("nodename");
    const std::string kind = name ? lower(name->value) : "gpu";
    for (const ConfWord& word : line.words)
      if (&word == name && !is_among("gpu mps shard", kind))
        add(line, word, word.value, {Verdict::kNoEqual, "no other kind of device than GPUs exists: make it a licence"});
      else
        take_word(kGresKeys, line, word);
    if (kind != "gpu" || !type)
      return {};
    if (!nodes) {
      gres_types_of_all_.insert(lower(type->value));
      return {};
    }
    const auto names = names_in(nodes->value);
    if (!names)
      return wrong(line.file, *nodes, names.error().message);
    for (const std::string& node : *names) gres_types_[node].insert(lower(type->value));
    return {};
  }

  // --- topology.conf ---

  Result<void> read_topology() {
    if (paths_.topology_conf.empty())
      return {};
    const auto text = read_(paths_.topology_conf);
    if (!text && text.error().code == Errc::kNotFound && !paths_.topology_must) {
      if (site_.has_topology)
        note(format("TopologyPlugin names a topology, and there is no {}: say --topology FILE", paths_.topology_conf));
      return {};
    }
    if (!text)
      return text.error();
    if (!site_.has_topology && !paths_.topology_must) {
      note(
          format("{} is not read: TopologyPlugin is neither tree nor block, so that Slurm does not read it either. "
                 "--topology FILE takes it all the same",
                 paths_.topology_conf));
      return {};
    }
    auto parsed = parse_topology(paths_.topology_conf, *text);
    // Switches apart from all others are what Slurm takes, with a warning.
    if (!parsed && parsed.error().message.find("hangs on no other switch") != std::string::npos) {
      note(format("no topology is taken over: {}", parsed.error().message));
      return {};
    }
    TopologyFile file = TRY(std::move(parsed));
    for (const ConfLine& line : TRY(conf_lines(paths_.topology_conf, *text))) take_words(kTopologyKeys, line);
    std::vector<std::string> names;
    for (const NodeLine& line : node_lines_) names.insert(names.end(), line.names.begin(), line.names.end());
    if (!names.empty())
      for (const std::string& difference : topology_differences(paths_.topology_conf, file, names)) note(difference);
    site_.file.topology = std::move(file.topology);
    return {};
  }

  // --- partitions ---

  Result<void> partition_line(const ConfLine& line) {
    const ConfWord& first = line.words.front();
    site_.partition = partition_default_;
    take_words(kPartitionKeys, line);
    if (is_default(first)) {
      partition_default_ = site_.partition;
      return {};
    }
    if (!is_record_name(first.value))
      return wrong(line.file, first, format("\"{}\" is no name of a partition", first.value));
    site_.partition.record.meta.name = first.value;
    site_.partition.file = line.file;
    site_.partition.line = first.line;
    if (const auto [at, is_new] = partition_lines_.emplace(first.value, Place{line.file, first.line}); !is_new)
      return wrong(line.file, first,
                   format("partition {} is there already, in {}:{}: make one line of the two", first.value,
                          at->second.file, at->second.line));
    partitions_.push_back(site_.partition);
    return {};
  }

  Result<void> make_partitions() {
    std::string chosen;
    for (PartitionDraft& draft : partitions_) {
      Partition& partition = draft.record;
      partition.nodes = TRY(members(draft));
      if (partition.nodes.empty())
        note(format("partition {} has no nodes: its jobs wait until it gets some", partition.meta.name));
      for (auto* list :
           {&partition.allow_accounts, &partition.deny_accounts, &partition.allow_qos, &partition.deny_qos})
        for (std::string& name : *list) name = lower(name);
      partition.qos = lower(partition.qos);
      if (partition.memory_per_core_mb == 0)
        partition.memory_per_core_mb = site_.memory_per_core_mb;
      if (partition.is_default && !chosen.empty())
        note(format("{} and {} are both the default partition: the later one is, as in Slurm", chosen,
                    partition.meta.name));
      if (partition.is_default)
        chosen = partition.meta.name;
    }
    for (PartitionDraft& draft : partitions_) {
      draft.record.is_default = draft.record.meta.name == chosen;
      site_.file.partitions.push_back(std::move(draft.record));
    }
    return {};
  }

  Result<std::vector<std::string>> members(const PartitionDraft& draft) {
    const auto names = names_in(draft.nodes);
    if (!names)
      return refused(draft, names.error().message);
    std::vector<std::string> out;
    std::unordered_set<std::string_view> known;  // of names that live in `names` and in sets
    known.reserve(names->size());
    for (const std::string& name : *names) {
      if (is_all(name))
        return std::vector<std::string>{"ALL"};
      const auto* of_set = TRY(set_members(name, draft));
      if (!of_set && !nodes_.contains(name))
        return refused(draft, format("no NodeName line has node {}, and no NodeSet is called so", name));
      for (const std::string& node : of_set ? std::span(*of_set) : std::span(&name, 1))
        if (known.insert(node).second)
          out.push_back(node);
      mentioned_ += of_set ? of_set->size() : 0;
      if (mentioned_ > kNamesMentioned)
        return refused(draft, "too many nodes in sets of nodes");
    }
    return out;
  }

  static Error refused(const PartitionDraft& draft, std::string_view what) {
    return invalid(format("{}:{}:1: partition {}: {}", draft.file, draft.line, draft.record.meta.name, what),
                   draft.file);
  }

  // Null: no set is called so. They are looked up once.
  Result<const std::vector<std::string>*> set_members(const std::string& name, const PartitionDraft& draft) {
    const auto sets = node_sets_.find(name);
    if (sets == node_sets_.end())
      return static_cast<const std::vector<std::string>*>(nullptr);
    const auto [at, is_new] = set_members_.emplace(name, std::vector<std::string>());
    if (!is_new)
      return &at->second;
    for (const NodeSetDraft& set : sets->second) {
      const bool is_all = lower(set.nodes) == "all";
      const auto named = names_in(is_all ? "" : set.nodes);
      if (!named)
        return refused(draft, format("node set {}: {}", name, named.error().message));
      for (const std::string& node : *named) {
        if (!nodes_.contains(node))
          return refused(draft, format("node set {}: no NodeName line has node {}", name, node));
        at->second.push_back(node);
      }
      for (const NodeLine& line : node_lines_)
        if (is_all || have_common(set.features, line.draft.features))
          at->second.insert(at->second.end(), line.names.begin(), line.names.end());
    }
    return &at->second;
  }

  static bool have_common(const std::vector<std::string>& some, const std::vector<std::string>& others) {
    return std::any_of(some.begin(), some.end(), [&](const std::string& one) {
      return std::find(others.begin(), others.end(), one) != others.end();
    });
  }

  // --- the rest ---

  // A partition that was removed leaves its associations in the database.
  void drop_what_has_no_partition() {
    std::set<std::string> dropped;
    std::erase_if(site_.file.associations, [&](const Association& a) {
      const bool is_gone = !a.partition.empty() && !partition_lines_.contains(a.partition);
      if (is_gone)
        dropped.insert(a.partition);
      return is_gone;
    });
    if (!dropped.empty())
      note(format("users in partition {} are left out: slurm.conf has no such partition",
                  join({dropped.begin(), dropped.end()}, ", ")));
  }

  // Here the default is one of those that are allowed.
  void settle_default_qos() {
    std::vector<std::string> added;
    const auto settle = [&](auto& record, const std::string& name) {
      if (record.qos.empty() || record.default_qos.empty() ||
          std::find(record.qos.begin(), record.qos.end(), record.default_qos) != record.qos.end())
        return;
      record.qos.push_back(record.default_qos);
      std::sort(record.qos.begin(), record.qos.end());
      added.push_back(format("{} ({})", name, record.default_qos));
    };
    for (Account& a : site_.file.accounts) settle(a, a.meta.name);
    for (Association& a : site_.file.associations) settle(a, a.meta.name);
    if (!added.empty())
      note(format("the default QOS of {} was not among those allowed, and is now", join(added, ", ")));
  }

  // Slurm's root account holds the others, and no jobs of users. A list of nothing else lets no user in: so does an
  // account of that name without users.
  static void drop_root(Partition& partition) {
    std::erase(partition.deny_accounts, "root");
    if (partition.allow_accounts.size() > 1)
      std::erase(partition.allow_accounts, "root");
  }

  // A record may only name an account that is there.
  void name_missing_accounts() {
    std::set<std::string> wanted;
    for (Partition& p : site_.file.partitions) {
      drop_root(p);
      wanted.insert(p.allow_accounts.begin(), p.allow_accounts.end());
      wanted.insert(p.deny_accounts.begin(), p.deny_accounts.end());
    }
    for (const Account& a : site_.file.accounts) wanted.erase(a.meta.name);
    if (wanted.empty())
      return;
    note(format(
        "account{} {} {} named by partitions and not described: made without users. Give what `sacctmgr dump` "
        "wrote with --accounts FILE, or write their users into the file",
        wanted.size() == 1 ? "" : "s", join({wanted.begin(), wanted.end()}, ", "), wanted.size() == 1 ? "is" : "are"));
    for (const std::string& name : wanted) {
      site_.file.accounts.emplace_back();
      site_.file.accounts.back().meta.name = name;
    }
  }

  // A record may only name a QOS that is there.
  void name_missing_qos() {
    std::set<std::string> wanted;
    const auto want = [&](const std::vector<std::string>& names, const std::string& name) {
      wanted.insert(names.begin(), names.end());
      wanted.insert(name);
    };
    for (const Partition& p : site_.file.partitions) want(p.allow_qos, p.qos), want(p.deny_qos, "");
    for (const Account& a : site_.file.accounts) want(a.qos, a.default_qos);
    for (const Association& a : site_.file.associations) want(a.qos, a.default_qos);
    for (const Qos& q : site_.file.qos) want(q.preempts, "");
    wanted.erase("");
    for (const Qos& qos : site_.file.qos) wanted.erase(qos.meta.name);
    if (!wanted.empty())
      note(
          format("QOS {} {} named and not described: {} without limits. give what `sacctmgr -P show qos` prints with "
                 "--qos FILE, or write theirs into the file",
                 join({wanted.begin(), wanted.end()}, ", "), wanted.size() == 1 ? "is" : "are",
                 wanted.size() == 1 ? "it is made" : "they are made"));
    for (const std::string& name : wanted) {
      site_.file.qos.emplace_back();
      site_.file.qos.back().meta.name = name;
    }
  }

  void settle_policy() {
    Policy& policy = site_.policy;
    constexpr std::uint32_t Policy::*kWeights[] = {&Policy::weight_age,      &Policy::weight_fair_share,
                                                   &Policy::weight_job_size, &Policy::weight_partition,
                                                   &Policy::weight_qos,      &Policy::weight_assoc};
    const bool has_weights =
        !policy.weight_tres.empty() ||
        std::any_of(std::begin(kWeights), std::end(kWeights), [&](auto weight) { return policy.*weight > 0; });
    if (!site_.by_priority) {
      for (const auto weight : kWeights) policy.*weight = 0;
      policy.weight_tres.clear();
      if (has_weights)
        note("PriorityType is priority/basic, so that no weight counts, in Slurm neither");
    } else if (!has_weights) {
      note(
          "no weight of priority is set: jobs go by submission, as in Slurm. Take `policy` out of the file to have "
          "them go "
          "by fair share, as Lockstep orders them by itself");
    }
    site_.file.policy = policy;
  }

  struct Place {
    std::string file;
    std::size_t line = 0;
  };

  const ImportPaths& paths_;
  const ReadFile& read_;
  Site site_;
  Report report_;
  std::size_t known_ = 0, unknown_ = 0, mentioned_ = 0;
  std::map<std::string, std::size_t> seen_;  // settings of slurm.conf by the line that has them last
  NodeDraft node_default_;
  PartitionDraft partition_default_;
  std::vector<NodeLine> node_lines_;
  std::unordered_map<std::string, Place> nodes_;
  std::map<std::string, std::vector<NodeSetDraft>> node_sets_;
  std::map<std::string, std::vector<std::string>> set_members_;
  std::vector<PartitionDraft> partitions_;
  std::map<std::string, Place> partition_lines_;
  std::map<std::string, std::set<std::string>> gres_types_;  // by node
  std::set<std::string> gres_types_of_all_;
};

}  // namespace

Result<Imported> import_slurm(const ImportPaths& paths, const ReadFile& read) { return Importer(paths, read).run(); }

}  // namespace lockstep::slurm
