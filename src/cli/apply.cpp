// lockstep apply and lockstep diff: a file beside a cluster.
#include <stdio.h>
#include <time.h>

#include <algorithm>
#include <optional>

#include "base/hostlist.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/cluster_dir.h"
#include "cli/cluster_files.h"
#include "cli/verb_words.h"
#include "io/client/unix_api_client.h"
#include "io/local/process.h"
#include "views/shown_text.h"
#include "wire/api.h"
#include "wire/cluster_schema.h"
#include "wire/codec.h"
#include "wire/json_text.h"

namespace lockstep {

namespace {

constexpr const char* kApplyHelp = R"help(Usage: lockstep apply -f FILE [-f FILE …] [--dry-run] [--prune] [--dir DIR]
       lockstep apply --schema | --keys

Makes a cluster what a cluster.yaml says: classes of nodes, partitions, QOS, accounts and users, limits, licences,
reservations, health_checks, policy, topology. What differs is shown, key by key, and changed, in groups of some hundred records that
are changed all or none. What the file says of a record is all of it: a key that is left out is at its default. What is
not in the file stays as it is.

  -f, --file FILE   a file; - is standard input; several are read as one
  -n, --dry-run     show what would change, and change nothing
      --prune       remove what is not in the file, of the kinds that it has a section for
      --schema      print the JSON schema of the file, for editors
      --keys        print all keys of the file, what they mean and how values are written
      --dir DIR     the cluster's directory

Exit codes: 0 done, or nothing to do; 1 failed; 2 wrong usage.

Examples
  lockstep get > cluster.yaml
  lockstep apply -f cluster.yaml --dry-run
  lockstep apply -f cluster.yaml
)help";
constexpr const char* kDiffHelp = R"help(Usage: lockstep diff -f FILE [-f FILE …] [--prune] [-o table|json] [--dir DIR]

What a cluster has otherwise than a cluster.yaml says (drift), key by key: what `lockstep apply` would change. Nodes
that have less than their class expects are listed too.

  -f, --file FILE   a file; - is standard input; several are read as one
      --prune       what is not in the file counts as a difference
  -o json           as JSON
      --dir DIR     the cluster's directory

Exit codes, as of diff(1): 0 no difference, 1 some, 2 trouble.

Example
  lockstep diff -f cluster.yaml || mail -s drift root < /dev/null
)help";

struct ApplyAsk {
  std::string verb, dir, output = "table";
  std::vector<std::string> files;
  bool dry_run = false, prune = false;
};

// Where both the file and the cluster could be read.
struct Comparison {
  std::string cluster;  // its name
  ClusterFile wanted;
  LiveCluster live;
  WallTime now;
  ClusterDifference difference;
};

int apply_failed(const ApplyAsk& ask, const Error& error) {
  fprintf(stderr, "lockstep %s: %s\n", ask.verb.c_str(), shown(error.message).c_str());
  return ask.verb == "diff" ? 2 : 1;
}

std::string socket_of(const ApplyAsk& ask) { return ask.dir.empty() ? find_socket() : cluster_dir(ask.dir).socket(); }

// Names of nodes that nobody bears yet.
void add_unknown_nodes(const ClusterFile& wanted, const LiveCluster& live, std::vector<std::string>& notes) {
  std::set<std::string, std::less<>> known = {"ALL"};
  for (const Node& node : live.nodes) known.insert(node.meta.name);
  const auto look = [&](Kind kind, const std::string& name, const std::vector<std::string>& nodes) {
    std::vector<std::string> strange;
    for (const std::string& node : nodes)
      if (!known.contains(node))
        strange.push_back(node);
    sort_hosts(strange);
    const std::string words = record_words(kind, name);
    if (!strange.empty())
      notes.push_back(format("{}{}: {} {} this cluster yet", place_of(wanted, words), words, compress_hostlist(strange),
                             strange.size() == 1 ? "is no node of" : "are no nodes of"));
  };
  for (const NodeClass& one : wanted.node_classes) look(Kind::kNodeClass, one.meta.name, one.nodes);
  for (const Partition& one : wanted.partitions) look(Kind::kPartition, one.meta.name, one.nodes);
  for (const HealthCheck& one : wanted.health_checks) look(Kind::kHealthCheck, one.meta.name, one.nodes);
  std::vector<std::string> placed;
  if (wanted.topology)
    for (const TopologyLeaf& leaf : wanted.topology->leaves)
      placed.insert(placed.end(), leaf.nodes.begin(), leaf.nodes.end());
  look(Kind::kTopology, "", placed);
}

// Users that neither the cluster nor this machine knows: a slip of the pen, or they come later. This program is static
// and cannot ask the machine's user databases itself.
void add_unknown_users(const ClusterFile& wanted, const LiveCluster& live, std::vector<std::string>& notes) {
  constexpr std::size_t kAskedMost = 200, kNamedMost = 10;
  std::set<std::string> known, strange;
  for (const User& user : live.users) known.insert(user.meta.name);
  for (const Association& one : live.file.associations) known.insert(one.user);
  for (const Association& one : wanted.associations)
    if (!known.contains(one.user) && strange.size() < kAskedMost)
      strange.insert(one.user);
  if (strange.empty())
    return;
  std::vector<std::string> ask = {"getent", "--", "passwd"};
  ask.insert(ask.end(), strange.begin(), strange.end());
  constexpr int kSomeMissing = 2;  // its exit code
  const auto found = run_and_hear(ask);
  if (!found || (found->code != 0 && found->code != kSomeMissing))
    return;
  for (const std::string& line : split(found->out, '\n')) strange.erase(line.substr(0, line.find(':')));
  std::vector<std::string> names(strange.begin(), strange.end());
  const bool is_more = names.size() > kNamedMost;
  names.resize(std::min(names.size(), kNamedMost));
  if (!names.empty())
    notes.push_back(format("{}{}: this machine has no such user yet", join(names, ", "), is_more ? " and others" : ""));
}

// A check runs as a user whom the cluster has met.
void add_unknown_runners(const ClusterFile& wanted, const LiveCluster& live, std::vector<std::string>& notes) {
  std::set<std::string_view> known;
  for (const User& user : live.users) known.insert(user.meta.name);
  for (const HealthCheck& check : wanted.health_checks)
    if (!known.contains(check.user))
      notes.push_back(format("health check {}: it runs when user {} has used the cluster once (squeue is enough)",
                             check.meta.name, check.user));
}

Result<std::string> cluster_name(ApiClient& client) {
  const auto reply = TRY(client.call("GET", "/v1/ping", "", seconds(30)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return TRY(decode_ping(reply.body)).cluster;
}

Result<Comparison> compare(const ApplyAsk& ask, ApiClient& client, ClusterFile wanted) {
  Comparison out;
  out.wanted = std::move(wanted);
  out.cluster = TRY(cluster_name(client));
  out.live = TRY(read_live_cluster(client));
  out.now = {static_cast<std::int64_t>(time(nullptr)) * 1'000'000};
  TRY(check_references(out.wanted, out.live, ask.prune));
  out.difference = differences(out.wanted, out.live, out.now);
  add_unknown_nodes(out.wanted, out.live, out.difference.notes);
  add_unknown_users(out.wanted, out.live, out.difference.notes);
  add_unknown_runners(out.wanted, out.live, out.difference.notes);
  for (std::string& line : class_shortfalls(out.wanted, out.live)) out.difference.notes.push_back(std::move(line));
  return out;
}

void print_difference(const ClusterDifference& difference, bool prune) {
  for (const RecordDifference& one : difference.records) {
    const bool absent = one.what == RecordDifference::What::kAbsent;
    for (const std::string& line : lines_of(one))
      printf("%s%s\n", shown(line).c_str(), absent && prune ? ", to be removed" : "");
  }
  for (const std::string& note : difference.notes) fprintf(stderr, "note: %s\n", shown(note).c_str());
}

// What apply would change.
std::size_t change_count(const ClusterDifference& difference, bool prune) {
  return difference.records.size() - (prune ? 0 : difference.count(RecordDifference::What::kAbsent));
}

// The index in "changes[3].limits"; none: it is about no single change.
std::optional<std::size_t> index_of(std::string_view field) {
  constexpr std::string_view kStart = "changes[";
  if (!field.starts_with(kStart))
    return std::nullopt;
  field.remove_prefix(kStart.size());
  const auto index = parse_uint(field.substr(0, field.find(']')));
  return index ? std::optional<std::size_t>(*index) : std::nullopt;
}

// The controller's refusal, about which record it is and where that stands in the file.
std::string refusal_words(const Error& error, const std::vector<PlannedChange>& group, const ClusterFile& wanted) {
  std::string message = error.message;
  constexpr std::string_view kEnd = "; nothing was changed";
  const auto index = index_of(error.field);
  if (const std::string start = index ? format("changes[{}]: ", *index) : ""; message.starts_with(start))
    message.erase(0, start.size());
  if (message.ends_with(kEnd))
    message.resize(message.size() - kEnd.size());
  if (index && *index < group.size())
    message = format("{}{}: {}", place_of(wanted, group[*index].words), group[*index].words, message);
  if (error.code == Errc::kConflict && message.find("since version") != message.npos)
    message += " (somebody else changed it meanwhile: apply again)";
  return message;
}

Result<void> send(ApiClient& client, const std::vector<PlannedChange>& group) {
  RecordChanges ask;
  for (const PlannedChange& one : group) ask.changes.push_back(one.change);
  const bool alone = group.size() == 1 && group[0].change.topology;
  constexpr std::size_t kBodyMax = 4 << 20;
  std::string body = encode(ask);
  std::string method = "POST", target = "/v1/changes";
  if (alone && body.size() > kBodyMax) {
    method = "PUT";
    const Seq seq = group[0].change.is_new ? kIfNew : group[0].change.if_seq;
    target = format("/v1/topology?if_seq={}", seq);
    body = encode_whole(std::make_shared<const Topology>(*group[0].change.topology));
  }
  const auto reply = TRY(client.call(method, target, body, seconds(120)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return {};
}

int carry_out(const ApplyAsk& ask, ApiClient& client, const Comparison& comparison) {
  auto changes = planned_changes(comparison.wanted, comparison.live, comparison.now, ask.prune);
  const std::size_t all = changes.size();
  std::size_t made = 0;
  for (const std::vector<PlannedChange>& group : in_groups(std::move(changes))) {
    if (const auto done = send(client, group); !done) {
      std::string message = refusal_words(done.error(), group, comparison.wanted);
      message += made == 0 ? "; nothing was changed"
                           : format("; {} of {} changes were made before, the rest was not: mend it and apply again",
                                    made, all);
      if (done.error().code == Errc::kTimeout)
        message =
            format("{}: what became of the last changes is not known; `lockstep diff` says", done.error().message);
      return apply_failed(ask, Error{done.error().code, message, {}});
    }
    made += group.size();
  }
  const std::size_t records = change_count(comparison.difference, ask.prune);
  printf("cluster %s: %zu record%s changed\n", shown(comparison.cluster).c_str(), records, records == 1 ? "" : "s");
  return 0;
}

void print_json(const ClusterDifference& difference) {
  constexpr std::string_view kWhats[] = {"new", "changed", "not in the file"};
  JsonText j;
  j.object().key("differences").array();
  for (const RecordDifference& one : difference.records) {
    j.object().field("kind", text_of(one.kind)).field("name", one.name);
    j.field("what", kWhats[static_cast<std::size_t>(one.what)]).key("keys").array();
    for (const KeyDifference& key : one.keys)
      j.object().field("key", key.key).field("before", key.before).field("after", key.after).end();
    j.end().end();
  }
  j.end().key("notes").array();
  for (const std::string& note : difference.notes) j.value(note);
  j.end().end();
  puts(j.take().c_str());
}

int apply_files(const ApplyAsk& ask) {
  auto wanted = read_cluster_files(ask.files);
  if (!wanted)
    return apply_failed(ask, wanted.error());
  const auto client = connect_and_tell(socket_of(ask));
  if (!client)
    return apply_failed(ask, client.error());
  const auto comparison = compare(ask, **client, std::move(*wanted));
  if (!comparison)
    return apply_failed(ask, comparison.error());
  const std::size_t count = change_count(comparison->difference, ask.prune);
  if (ask.output == "json")
    print_json(comparison->difference);
  else
    print_difference(comparison->difference, ask.prune);
  if (ask.verb == "diff")
    return count > 0 ? 1 : 0;
  if (count == 0)
    puts("nothing to change");
  else if (ask.dry_run)
    printf("%zu record%s would change\n", count, count == 1 ? "" : "s");
  else
    return carry_out(ask, **client, *comparison);
  return 0;
}

// An exit code when there is nothing more to do.
std::optional<int> read_apply_words(ApplyAsk& ask, const char* help, int argc, char** argv) {
  static const option kApply[] = {{"file", 1, nullptr, 'f'},   {"dry-run", 0, nullptr, 'n'}, {"prune", 0, nullptr, 'p'},
                                  {"schema", 0, nullptr, 's'}, {"keys", 0, nullptr, 'k'},    {"dir", 1, nullptr, 'd'},
                                  {"help", 0, nullptr, 'h'},   {nullptr, 0, nullptr, 0}};
  static const option kDiff[] = {{"file", 1, nullptr, 'f'}, {"prune", 0, nullptr, 'p'}, {"output", 1, nullptr, 'o'},
                                 {"dir", 1, nullptr, 'd'},  {"help", 0, nullptr, 'h'},  {nullptr, 0, nullptr, 0}};
  const bool is_diff = ask.verb == "diff";
  VerbWords words({.verb = ask.verb,
                   .options = is_diff ? kDiff : kApply,
                   .letters = is_diff ? "f:o:h" : "f:nh",
                   .instead = "to name a file: -f FILE"},
                  argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'f': ask.files.emplace_back(optarg); break;
      case 'n': ask.dry_run = true; break;
      case 'p': ask.prune = true; break;
      case 'o': ask.output = optarg; break;
      case 'd': ask.dir = optarg; break;
      case 's': fputs(cluster_file_schema().c_str(), stdout); return 0;
      case 'k': fputs(cluster_file_tables().c_str(), stdout); return 0;
      case 'h': fputs(help, stdout); return 0;
      default: return 2;
    }
  if (ask.output != "table" && ask.output != "json") {
    fprintf(stderr, "lockstep %s: -o %s: write table or json\n", ask.verb.c_str(), ask.output.c_str());
    return 2;
  }
  const auto inputs = std::count(ask.files.begin(), ask.files.end(), "-");
  if (ask.files.empty() || inputs > 1) {
    fprintf(stderr, "lockstep %s: %s\nTry `lockstep %s --help`.\n", ask.verb.c_str(),
            inputs > 1 ? "standard input is read once" : "say which file: -f cluster.yaml", ask.verb.c_str());
    return 2;
  }
  return std::nullopt;
}

int apply_or_diff(std::string verb, const char* help, int argc, char** argv) {
  ApplyAsk ask;
  ask.verb = std::move(verb);
  if (const auto exit_code = read_apply_words(ask, help, argc, argv))
    return *exit_code;
  return apply_files(ask);
}

}  // namespace

int apply_main(int argc, char** argv) { return apply_or_diff("apply", kApplyHelp, argc, argv); }
int diff_main(int argc, char** argv) { return apply_or_diff("diff", kDiffHelp, argc, argv); }

}  // namespace lockstep
