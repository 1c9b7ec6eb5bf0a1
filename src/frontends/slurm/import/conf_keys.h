// Every parameter of Slurm's configuration files, and what becomes of it here: one row each, in tables by the line they
// stand in. The report of an import, the table of docs/importing.md and the tests read the same rows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/slurm/import/conf_lines.h"
#include "wire/cluster_file.h"

namespace lockstep::slurm {

enum class Verdict : unsigned char {
  kTaken,    // it is in the file that is written, or Lockstep does just that
  kSame,     // needs no line: Lockstep does the same in its own way
  kNoEqual,  // users or administrators will notice that it is gone
  kUnknown,  // no parameter, or no value of it, that Slurm knows
};
std::string_view verdict_text(Verdict verdict);  // "taken", "same", "no equal", "unknown"

// What became of one setting. Where `words` is empty those of its row say it.
struct Fate {
  Verdict verdict = Verdict::kTaken;
  std::string words;
};

// Of a NodeName line, with what its DEFAULT lines gave; 0 and "" = not said.
struct NodeDraft {
  std::vector<std::string> features;
  std::uint32_t weight = 0;
  std::uint32_t cpus = 0, boards = 0, sockets = 0, sockets_per_board = 0, cores_per_socket = 0, threads_per_core = 0;
  std::int64_t memory_mb = 0;
  std::uint32_t gpus = 0;
  std::string gpu_type;  // "" = none is said, or several
  bool gpu_types_differ = false;
};

// Of a PartitionName line; the names are looked up once every node is known.
struct PartitionDraft {
  Partition record;
  std::string nodes;  // as written
  std::string file;
  std::size_t line = 0;
};

struct NodeSetDraft {
  std::string name, nodes;
  std::vector<std::string> features;
};

// What an import has come by so far.
struct Site {
  ClusterFile file;
  Policy policy;            // with Slurm's defaults where nothing is said
  bool by_priority = true;  // PriorityType=priority/multifactor: the weights count
  bool has_policy = false;  // something of it is said
  bool has_topology = false;
  int hosts = 0;                        // SlurmctldHost lines
  std::int64_t memory_per_core_mb = 0;  // DefMemPerCPU of the cluster
  // The line that is read.
  NodeDraft node;
  PartitionDraft partition;
  NodeSetDraft node_set;
};

struct ConfTable;

struct ConfKey {
  std::string_view name;
  Verdict verdict = Verdict::kUnknown;  // where neither `ours` nor `take` says otherwise
  // Values, in lower case between blanks, with which Slurm does what Lockstep always does.
  std::string_view ours;
  std::string_view words;  // what becomes of it; of kNoEqual what that means and what to do instead
  Result<Fate> (*take)(Site& site, const ConfWord& word) = nullptr;
  const ConfTable* options = nullptr;  // the value is a list of these
};

struct ConfTable {
  std::string_view title;  // "slurm.conf", "NodeName lines"
  std::span<const ConfKey> keys;
};

extern const ConfTable kClusterKeys, kNodeKeys, kDownNodesKeys, kFrontendKeys, kNodeSetKeys, kPartitionKeys, kGresKeys,
    kTopologyKeys;
std::vector<const ConfTable*> conf_tables();  // all, those of options too

const ConfKey* find_key(const ConfTable& table, std::string_view name);       // any case; null: there is none
std::string_view nearest_key(const ConfTable& table, std::string_view name);  // "": none is near

// Does what the row says, and tells what became of it. A value that cannot be read is kUnknown.
Fate settle(const ConfKey& key, Site& site, const ConfWord& word);

// All of it as Markdown, for docs/importing.md.
std::string keys_as_markdown();

}  // namespace lockstep::slurm
