#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>

#include "base/hostlist.h"
#include "base/nearest.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/local_cluster.h"
#include "cli/node_fault.h"
#include "cli/node_join.h"
#include "cli/verb_words.h"
#include "cli/vm_nodes.h"
#include "io/local/state_dir.h"
#include "io/local/thawing.h"
#include "views/shown_text.h"
#include "wire/api.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep node VERB …

  token --node NAMES [options]              print a token that lets a machine join under one of these names: n5, gpu[1-8]
  token --any-name [options]                the same for any name that nobody has
  join --controller HOST:PORT --token T     make this machine a node (run on the new machine, as root)
  leave [--now]                             take this machine out of its cluster (run on it, as root)
  update NAMES --trust-administrators       let root and administrators who call from there be so for the cluster
  update NAMES --no-trust-administrators    the default: they have the rights of the owner of a job there, no others
  update NAME --address A                   others find it there ("": where its connection comes from)
  update NAME --task-range RANGE            its tasks get addresses of this range, which its agent.json names as well
  update NAMES --accept                     what they say next of their features, domains and resources counts
  drain NAMES [--reason TEXT]               take no new work there
  resume NAMES                              take work again
  revoke NAMES                              cut nodes off: their certificates count no more, their work is fenced
  revoke NAMES --now                        the same, and their work is off: you have made sure that nothing runs there
  remove NAMES                              forget nodes that are down and hold nothing; their certificates with them
  kill NAMES                                pull the plug of virtual nodes
  fault NAME GPU FAULT…                     something happens to a simulated GPU: xid=79, lost, ecc=2, throttle=thermal,
                                            link=3 (docs/gpus.md lists them); none mends it
  fault NAME reboot                         the reset button of a node that is a virtual machine is pressed
  fault NAME power-off                      its plug is pulled; `lockstep up` starts it again
NAMES: one or several, each a name or a host list: n1 n[3-5,8]. All must be there, else nothing is done. All but join and
leave take --dir DIR.

Options of token
  --ttl SECONDS            how long it may be used (default 3600, at most 30 days)
  --uses N                 by how many machines (default 1, at most 1000)
  --replace                the name may be taken from a node that is up or holds work, which is cut off and fenced first
  --broker REALM           the machine speaks for all users of its own user database, under this name of it
  --trust-administrators   as with update
  --address A              others find the machine there (default: where its connection comes from)
  --task-range RANGE       its tasks get addresses of this range: 10.88.3.0/24. Of a wider one each machine gets a /24
)help";

constexpr std::string_view kOnNodes[] = {"update", "drain", "resume", "revoke", "remove", "kill"};

int fail(const Error& error) {
  fprintf(stderr, "lockstep node: %s\n", error.message.c_str());
  return 1;
}

Result<std::string> api(const ClusterDir& dir, std::string_view method, const std::string& target,
                        const std::string& body) {
  const auto client = TRY(connect_and_tell(dir.socket()));
  const auto reply = TRY(client->call(method, target, body, seconds(30)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return reply.body;
}

// For what may be asked twice: asked again when the controller died with it.
Result<std::string> api_again(const ClusterDir& dir, std::string_view method, const std::string& target,
                              const std::string& body) {
  for (int tries = 3;; --tries) {
    auto said = api(dir, method, target, body);
    if (said || tries == 1 || (said.error().code != Errc::kIo && said.error().code != Errc::kUnavailable))
      return said;
  }
}

Result<void> tell_node(const ClusterDir& dir, const std::string& target, const std::string& body) {
  TRY(api_again(dir, "POST", "/v1/nodes/" + target, body));
  return {};
}

struct Words {
  std::string dir, reason;
  std::vector<std::string> rest;  // that are no options
  TokenRequest token;
  std::optional<bool> trust;
  std::optional<std::string> address, task_range;
  bool now = false, help = false, accept = false;
};

Result<std::uint64_t> number(const char* option, const char* text, std::uint64_t most) {
  const auto value = parse_uint(text);
  if (!value || *value == 0 || *value > most)
    return invalid(format("{} {}: a number from 1 to {} is meant", option, text, most));
  return *value;
}

bool is_help(std::string_view verb) { return verb == "help" || verb == "--help" || verb == "-h"; }

// How many words it takes that are no options.
std::size_t words_of(std::string_view verb) { return verb == "token" || is_help(verb) ? 0 : kAnyWords; }

Result<Words> parse(const std::string& verb, int argc, char** argv) {
  static const option kOptions[] = {{"dir", 1, nullptr, 'd'},
                                    {"node", 1, nullptr, 'n'},
                                    {"any-name", 0, nullptr, 'a'},
                                    {"ttl", 1, nullptr, 't'},
                                    {"uses", 1, nullptr, 'u'},
                                    {"replace", 0, nullptr, 'r'},
                                    {"broker", 1, nullptr, 'b'},
                                    {"help", 0, nullptr, 'h'},
                                    {"now", 0, nullptr, 'w'},
                                    {"reason", 1, nullptr, 'R'},
                                    {"address", 1, nullptr, 'A'},
                                    {"task-range", 1, nullptr, 'G'},
                                    {"accept", 0, nullptr, 'C'},
                                    {"trust-administrators", 0, nullptr, 'T'},
                                    {"no-trust-administrators", 0, nullptr, 'N'},
                                    {nullptr, 0, nullptr, 0}};
  Words words;
  VerbWords given({.verb = "node",
                   .options = kOptions,
                   .words = words_of(verb),
                   .instead = verb == "token" ? "to name nodes: --node NAMES" : nullptr},
                  std::max(argc - 1, 0), argv + 1);
  for (int c; (c = given.next()) != -1;) switch (c) {
      case 'd': words.dir = optarg; break;
      case 'n': words.token.node = optarg; break;
      case 'a': words.token.any_name = true; break;
      case 't':
        words.token.ttl_s = static_cast<std::int64_t>(TRY(number("--ttl", optarg, kTokenLifeMax.seconds())));
        break;
      case 'u': words.token.uses = static_cast<std::uint32_t>(TRY(number("--uses", optarg, kTokenUsesMax))); break;
      case 'r': words.token.replace = true; break;
      case 'R': words.reason = optarg; break;
      case 'b':
        words.token.role = JoinToken::Role::kBroker;
        words.token.realm = optarg;
        break;
      case 'T': words.trust = true; break;
      case 'N': words.trust = false; break;
      case 'A': words.address = optarg; break;
      case 'G': words.task_range = optarg; break;
      case 'C': words.accept = true; break;
      case 'h': words.help = true; break;
      case 'w': words.now = true; break;
      default: return invalid("");  // it is said
    }
  words.rest = given.rest();
  words.token.trust_administrators = words.trust.value_or(false);
  words.token.address = words.address.value_or("");
  words.token.task_range = words.task_range.value_or("");
  return words;
}

// What the controller would refuse, in the words of who typed it.
Result<void> check_names(const TokenRequest& ask) {
  if (ask.node.empty() && ask.replace)
    return invalid("--replace takes a name from a node: say which with --node NAMES");
  if (ask.node.empty() && !ask.any_name)
    return invalid("say which names the token may give: --node NAMES (n5, gpu[1-8]), or --any-name");
  if (!ask.node.empty() && ask.any_name)
    return invalid("a token is for the nodes of --node, or for --any-name: not both");
  return {};
}

Result<void> print_token(const ClusterDir& dir, const TokenRequest& ask) {
  const std::string answer = TRY(api(dir, "POST", "/v1/tokens", encode(ask)));
  puts(shown(TRY(decode_token_answer(answer))).c_str());
  return {};
}

Result<OwnProcess> running_node(ClusterDir dir, const std::string& name) {
  dir.id = TRY(find_state_dir(dir.root)).id;
  auto node = own_node(dir, name);
  if (!node)
    return not_found(format("{} is not a running node of {}", name, dir.root));
  return std::move(*node);
}

Result<void> pull_plug(const ClusterDir& dir, const std::string& name) {
  if (vm_process(dir, name) != 0) {
    TRY(make_machine_fault(dir, name, "power-off"));
    printf("%s is off; `lockstep up` starts it again\n", name.c_str());
    return {};
  }
  const auto node = TRY(running_node(dir, name));
  node.signal(SIGKILL);
  const Thawing thawing(TRY(find_state_dir(dir.root)).id, name);
  if (!node.ended(seconds(10)))
    return Error{Errc::kTimeout, name + " does not end", {}};
  printf("%s is off; `lockstep up` starts it again\n", name.c_str());
  return {};
}

Result<UpdateNode> update_of(const std::string& verb, const Words& words) {
  UpdateNode update;
  const bool says = words.trust || words.address || words.task_range || words.accept;
  if (verb == "update" && !says)
    return invalid(
        "say what to change: --trust-administrators or --no-trust-administrators, --address, --task-range, --accept");
  if (verb == "update") {
    update.trust_administrators = words.trust;
    update.address = words.address;
    update.task_range = words.task_range;
    update.accept = words.accept;
  } else if (verb == "revoke")
    update.revoke = true;
  else
    update.drain = verb == "drain";
  if (verb == "drain")
    update.reason = words.reason.empty() ? "drained by an administrator" : words.reason;
  return update;
}

Result<void> act_on(const ClusterDir& dir, const std::string& verb, const std::string& name, const Words& words) {
  if (verb == "kill")
    return pull_plug(dir, name);
  if (verb == "remove") {
    TRY(api(dir, "DELETE", "/v1/nodes/" + name, ""));
    return {};
  }
  TRY(tell_node(dir, name + (words.now ? "?now=1" : ""), encode(TRY(update_of(verb, words)))));
  return {};
}

Result<void> check_is_there(const ClusterDir& dir, const std::string& verb, const std::string& name, const char* hint) {
  if (verb == "kill") {  // without asking the controller, which may be away
    if (vm_process(dir, name) != 0)
      return {};
    const auto running = running_node(dir, name);
    return running ? Result<void>() : Error{running.error().code, running.error().message + "; nothing was done", {}};
  }
  const auto known = api_again(dir, "GET", "/v1/nodes/" + name, "");
  if (!known && known.error().code == Errc::kNotFound)
    return not_found(format("there is no node {}; nothing was done{}", name, hint));
  return known ? Result<void>() : Result<void>(known.error());
}

// Those that are named, each once, and all of them there: a word that is no node must not come to light half way.
Result<std::vector<std::string>> names_of(const ClusterDir& dir, const std::string& verb,
                                          const std::vector<std::string>& words) {
  constexpr std::size_t kNamesMost = 10'000;
  std::vector<std::string> names;
  for (const auto& word : words)
    for (auto& name : TRY(expand_hostlist(word, kNamesMost)))
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
  if (names.empty() || names.size() > kNamesMost)
    return invalid("say which nodes: lockstep node " + verb + " NAMES");
  for (const auto& name : names) {
    const char* const hint = verb == "drain" ? ". A reason is given as --reason TEXT" : "";
    if (!is_node_name(name))
      return invalid(format("{} is no name of a node{}", name, hint));
    TRY(check_is_there(dir, verb, name, hint));
  }
  return names;
}

// One that fails keeps no other from it, so that what is revoked in a hurry is. Without a controller none is tried
// more.
Result<void> act_on_all(const ClusterDir& dir, const std::string& verb, const Words& options) {
  if (options.now && verb != "revoke")
    return invalid("--now belongs to revoke");
  const auto names = TRY(names_of(dir, verb, options.rest));
  std::vector<std::string> failed;
  Errc code{};
  for (const auto& name : names) {
    const auto done = act_on(dir, verb, name, options);
    if (done)
      continue;
    code = done.error().code;
    failed.push_back(format("{}: {}", name, done.error().message));
    if (code == Errc::kIo || code == Errc::kUnavailable) {
      if (name != names.back())
        failed.push_back(format("those behind {} were not tried", name));
      break;
    }
  }
  return failed.empty() ? Result<void>() : Error{code, join(failed, "\n"), {}};
}

}  // namespace

std::vector<std::string_view> node_verbs() {
  std::vector<std::string_view> verbs{"token", "join", "leave", "fault"};
  verbs.insert(verbs.end(), std::begin(kOnNodes), std::end(kOnNodes));
  return verbs;
}

int node_main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "help";
  if (verb == "join")
    return node_join_main(argc - 1, argv + 1);
  if (verb == "leave")
    return node_leave_main(argc - 1, argv + 1);
  const auto words = parse(verb, argc, argv);
  if (!words.ok())
    return words.error().message.empty() ? 2 : fail(words.error());
  if (words->help || is_help(verb)) {
    fputs(kHelp, stdout);
    return 0;
  }
  const ClusterDir dir = cluster_dir(words->dir);
  if (verb == "token") {
    if (const auto named = check_names(words->token); !named) {
      fail(named.error());
      return 2;
    }
    const auto printed = print_token(dir, words->token);
    return printed.ok() ? 0 : fail(printed.error());
  }
  if (verb == "fault") {
    const bool is_machines = words->rest.size() == 2 && is_machine_fault(words->rest[1]);
    const auto added =
        is_machines ? make_machine_fault(dir, words->rest[0], words->rest[1]) : add_gpu_faults(dir, words->rest);
    return added.ok() ? 0 : fail(added.error());
  }
  if (std::find(std::begin(kOnNodes), std::end(kOnNodes), verb) == std::end(kOnNodes)) {
    const auto verbs = node_verbs();
    const std::string_view meant = nearest(verb, verbs);
    fprintf(stderr, "lockstep node: no such verb: %s%s\nTry `lockstep node help`.\n", shown(verb).c_str(),
            meant.empty() ? "" : format("; did you mean \"{}\"?", meant).c_str());
    return 2;
  }
  if (dir.is_installed() && words->dir.empty())
    fputs("lockstep node: the cluster that is installed on this machine is meant\n", stderr);
  const auto done = act_on_all(dir, verb, *words);
  return done.ok() ? 0 : fail(done.error());
}

}  // namespace lockstep
