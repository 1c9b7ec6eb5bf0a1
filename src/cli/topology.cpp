#include <stdio.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/cluster_dir.h"
#include "cli/verb_words.h"
#include "io/client/unix_api_client.h"
#include "wire/codec.h"
#include "wire/local_files.h"
#include "wire/topology_file.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep topology VERB …

  load FILE [--levels NAMES] [--strict]   make the tree of a topology.conf (Slurm's format) the cluster's
  check FILE [--levels NAMES]             say what is wrong with a file; changes nothing
  show                                    print the cluster's tree as such a file
  clear                                   forget it: all nodes are equally near
All take --dir DIR. --levels names the levels, outermost first: spine,leaf. Nodes that the file names and the cluster
does not have (yet), or the other way round, are listed; with --strict they are an error.
)help";

int fail(const Error& error) {
  fprintf(stderr, "lockstep topology: %s\n", error.message.c_str());
  return 1;
}

Result<std::string> call(const std::string& socket, std::string_view method, const std::string& target,
                         const std::string& body = {}) {
  const auto client = TRY(connect_and_tell(socket));
  const auto reply = TRY(client->call(method, target, body, seconds(30)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return reply.body;
}

Result<std::string> read_file(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rb"), &fclose);
  if (!file)
    return not_found("cannot open " + path);
  std::string text;
  char chunk[1 << 14];
  while (const std::size_t got = fread(chunk, 1, sizeof chunk, file.get())) {
    text.append(chunk, got);
    if (text.size() > (std::size_t{64} << 20))
      return invalid(path + " is larger than 64 MiB");
  }
  if (ferror(file.get()))
    return Error{Errc::kIo, "cannot read " + path, {}};
  return text;
}

Result<std::vector<std::string>> names_of_nodes(const std::string& socket) {
  const ClusterStatus status = TRY(decode_cluster_status(TRY(call(socket, "GET", "/v1/status"))));
  std::vector<std::string> names;
  for (const NodeStatus& node : status.nodes) names.push_back(node.name);
  return names;
}

int load(const std::string& socket, const std::string& path, const std::vector<std::string>& levels, bool strict,
         bool only_check) {
  const auto text = read_file(path);
  if (!text)
    return fail(text.error());
  const auto file = parse_topology(path, *text, levels);
  if (!file)
    return fail(file.error());
  const auto nodes = names_of_nodes(socket);
  if (!nodes && !only_check)
    return fail(nodes.error());
  const std::vector<std::string> differences =
      nodes ? topology_differences(path, *file, *nodes) : std::vector<std::string>();
  for (const std::string& line : differences) fprintf(stderr, "%s: %s\n", strict ? "error" : "note", line.c_str());
  if (strict && !differences.empty())
    return 1;
  const Topology& topology = file->topology;
  if (!only_check)
    if (const auto done = call(socket, "PUT", "/v1/topology", encode_whole(std::make_shared<const Topology>(topology)));
        !done)
      return fail(done.error());
  std::size_t count = 0;
  for (const TopologyLeaf& leaf : topology.leaves) count += leaf.nodes.size();
  printf("%s: %zu nodes on %zu %s; levels: %s\n", path.c_str(), count, topology.leaves.size(),
         topology.blocks ? "blocks" : "leaves", join(topology.levels, ", ").c_str());
  return 0;
}

int show(const std::string& socket) {
  const auto answer = call(socket, "GET", "/v1/topology");
  const auto topology = answer ? decode_topology(*answer) : Result<Topology>(answer.error());
  if (!topology)
    return fail(topology.error());
  fputs(topology_text(*topology).c_str(), stdout);
  return 0;
}

}  // namespace

int load_topology(const std::string& socket, const std::string& path) { return load(socket, path, {}, false, false); }

namespace {

bool is_help(std::string_view verb) { return verb == "help" || verb == "--help" || verb == "-h"; }

struct Words {
  std::string dir;
  std::vector<std::string> levels, files;
  bool strict = false;
};

// How many words it takes that are no options.
std::size_t words_of(std::string_view verb) {
  if (verb == "load" || verb == "check")
    return 1;
  return verb == "show" || verb == "clear" || is_help(verb) ? 0 : kAnyWords;
}

// An exit code when there is nothing more to do.
std::optional<int> read_options(Words& words, const std::string& verb, int argc, char** argv) {
  static const option kOptions[] = {{"dir", 1, nullptr, 'd'},
                                    {"levels", 1, nullptr, 'l'},
                                    {"strict", 0, nullptr, 's'},
                                    {"help", 0, nullptr, 'h'},
                                    {nullptr, 0, nullptr, 0}};
  VerbWords given({.verb = "topology", .options = kOptions, .words = words_of(verb), .instead = kDirInstead},
                  std::max(argc - 1, 0), argv + 1);
  for (int c; (c = given.next()) != -1;) switch (c) {
      case 'd': words.dir = optarg; break;
      case 'l': words.levels = split(optarg, ','); break;
      case 's': words.strict = true; break;
      case 'h': fputs(kHelp, stdout); return 0;
      default: return 2;
    }
  words.files = given.rest();
  return std::nullopt;
}

int clear(const std::string& socket) {
  const auto answer = call(socket, "DELETE", "/v1/topology");
  return answer ? 0 : fail(answer.error());
}

}  // namespace

int topology_main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "help";
  Words words;
  if (const auto exit_code = read_options(words, verb, argc, argv))
    return *exit_code;
  if (is_help(verb)) {
    fputs(kHelp, stdout);
    return 0;
  }
  const std::string socket = words.dir.empty() ? find_socket() : cluster_dir(words.dir).socket();
  const bool is_load = verb == "load";
  if ((is_load || verb == "check") && words.files.size() != 1) {
    fprintf(stderr, "lockstep topology: say which file: lockstep topology %s FILE\n", verb.c_str());
    return 2;
  }
  if (is_load || verb == "check")
    return load(socket, words.files[0], words.levels, words.strict, !is_load);
  if (verb == "show")
    return show(socket);
  if (verb == "clear")
    return clear(socket);
  fprintf(stderr, "lockstep topology: no such verb: %s\nTry `lockstep topology help`.\n", verb.c_str());
  return 2;
}

}  // namespace lockstep
