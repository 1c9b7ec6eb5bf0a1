#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/local_cluster.h"
#include "io/client/unix_api_client.h"
#include "io/local/state_dir.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep node VERB …

  token [--node NAME] [--ttl SECONDS]       print a one-time token that lets one machine join
  join --controller HOST:PORT --token T     make this machine a node (run on the new machine, as root)
  drain NAME [REASON]                       take no new work there
  resume NAME                               take work again
  remove NAME                               forget a node that is down and holds nothing
  kill NAME                                 pull the plug of a virtual node
All but join take --dir DIR.
)help";

int fail(const Error& error) {
  fprintf(stderr, "lockstep node: %s\n", error.message.c_str());
  return 1;
}

Result<std::string> api(const ClusterDir& dir, std::string_view method, const std::string& target,
                        const std::string& body) {
  const auto client = TRY(connect_unix(dir.socket()));
  const auto reply = TRY(client->call(method, target, body, seconds(30)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return reply.body;
}

Result<void> pull_plug(ClusterDir dir, const std::string& name) {
  dir.id = TRY(find_state_dir(dir.root)).id;
  const auto node = own_node(dir, name);
  if (!node)
    return not_found(format("{} is not a running node of {}", name, dir.root));
  node->signal(SIGKILL);
  if (!node->ended(seconds(10)))
    return Error{Errc::kTimeout, name + " does not end", {}};
  return {};
}

bool plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 253 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
             std::string::npos;
}

}  // namespace

int node_main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "help";
  if (verb == "join") {  // needs TLS, which the agent has
    std::vector<char*> words(argv + 1, argv + argc);
    words.push_back(nullptr);
    const std::string agent = program_dir() + "/lockstep-agent";
    words.insert(words.begin(), const_cast<char*>("lockstep-agent"));
    execv(agent.c_str(), words.data());
    fprintf(stderr, "lockstep node: cannot run %s: %s\n", agent.c_str(), strerror(errno));
    return 1;
  }
  static const option kOptions[] = {{"dir", 1, nullptr, 'd'},
                                    {"node", 1, nullptr, 'n'},
                                    {"ttl", 1, nullptr, 't'},
                                    {"help", 0, nullptr, 'h'},
                                    {nullptr, 0, nullptr, 0}};
  std::string path, node;
  std::uint64_t ttl_s = 3600;
  optind = 2;
  for (int c; (c = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) switch (c) {
      case 'd': path = optarg; break;
      case 'n': node = optarg; break;
      case 't': {
        const auto value = parse_uint(optarg);
        if (!value || *value == 0 || *value > 30ull * 86400)
          return fail(invalid("--ttl: 1 to 2592000 seconds"));
        ttl_s = *value;
        break;
      }
      case 'h': fputs(kHelp, stdout); return 0;
      default: fputs("Try `lockstep node help`.\n", stderr); return 2;
    }
  if (verb == "help" || verb == "--help") {
    fputs(kHelp, stdout);
    return 0;
  }
  const ClusterDir dir = cluster_dir(path);
  if (verb == "token") {
    if (!node.empty() && !plain_name(node))
      return fail(invalid("--node: not a host name: " + node));
    const auto answer =
        api(dir, "POST", "/v1/tokens", format(R"({{"role":"compute","node":"{}","ttl_s":{}}})", node, ttl_s));
    const auto token = answer ? decode_token_answer(*answer) : Result<std::string>(answer.error());
    if (!token)
      return fail(token.error());
    puts(token->c_str());
    return 0;
  }
  const std::string name = optind < argc ? argv[optind] : "";
  if (verb != "drain" && verb != "resume" && verb != "remove" && verb != "kill") {
    fprintf(stderr, "lockstep node: no such verb: %s\nTry `lockstep node help`.\n", verb.c_str());
    return 2;
  }
  if (!plain_name(name))
    return fail(invalid("say which node: lockstep node " + verb + " NAME"));
  if (verb == "kill") {
    if (const auto killed = pull_plug(dir, name); !killed)
      return fail(killed.error());
    printf("%s is off; `lockstep up` starts it again\n", name.c_str());
    return 0;
  }
  if (verb == "remove") {
    const auto answer = api(dir, "DELETE", "/v1/nodes/" + name, "");
    return answer ? 0 : fail(answer.error());
  }
  UpdateNode update;
  update.name = name;
  update.drain = verb == "drain";
  if (verb == "drain")
    update.reason = optind + 1 < argc ? argv[optind + 1] : "drained by an administrator";
  const auto answer = api(dir, "POST", "/v1/nodes/" + name, encode(update));
  return answer ? 0 : fail(answer.error());
}

}  // namespace lockstep
