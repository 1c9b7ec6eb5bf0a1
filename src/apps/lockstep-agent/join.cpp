#include "join.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "io/https_client.h"
#include "io/local/folder.h"
#include "io/pki.h"
#include "wire/api.h"

namespace lockstep {

namespace {

constexpr const char* kHelp =
    R"help(Usage: lockstep node join --controller HOST:PORT --token TOKEN [--node NAME] [--pki DIR]

Makes a key here, has the cluster sign it, and keeps both with the cluster's CA in DIR (default /var/lib/lockstep/pki).
The token comes from `lockstep node token` on the controller's machine; it works once and carries the CA's fingerprint,
so the answer can only come from that cluster. --token - reads it from stdin: arguments can be seen by every user of the
machine. DIR may not lie where others could exchange it. Then start the agent with a settings file that names these files.

Example
  lockstep node join --controller 10.0.0.1:6820 --token 3f2a….b17c….9d0e… --node gpu17
)help";

Result<HttpsServer> parse_controller(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_uint(text.substr(colon + 1));
  if (colon == 0 || !port || *port == 0 || *port > 65535)
    return invalid(format("--controller {}: write HOST:PORT", text));
  HttpsServer server;
  server.host = text.substr(0, colon);
  server.port = static_cast<std::uint16_t>(*port);
  return server;
}

std::string line_of_stdin() {
  std::string line;
  for (char c; line.size() < 4096 && ::read(0, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

TlsFiles files_in(const std::string& pki) {
  return {.ca = pki + "/ca.crt", .certificate = pki + "/node.crt", .key = pki + "/node.key"};
}

Result<void> join(const std::string& controller, const std::string& token, const std::string& node,
                  const std::string& pki) {
  HttpsServer server = TRY(parse_controller(controller));
  const auto parts = split(token, '.');
  if (parts.size() != 3 || parts[2].size() != 64)
    return invalid("--token: this is no token of `lockstep node token`");
  server.ca_sha256 = parts[2];
  const KeyAndRequest fresh = TRY(make_key_and_request("node:" + node));
  const auto reply = TRY(https_post(server, "/v1/join", encode(JoinRequest{token, node, fresh.request_pem})));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  const JoinAnswer answer = TRY(decode_join_answer(reply.body));
  const TlsFiles files = files_in(pki);
  TRY(write_file_durably(files.key, fresh.key_pem, 0600));
  TRY(write_file_durably(files.ca, answer.ca, 0644));
  return write_file_durably(files.certificate, answer.certificate, 0644);
}

}  // namespace

int check_main(int argc, char** argv) {
  if (argc != 2) {
    fputs("lockstep-agent check: DIR is needed\nTry `lockstep-agent --help`.\n", stderr);
    return 2;
  }
  const auto usable = check_usable(files_in(argv[1]));
  if (!usable.ok())
    fprintf(stderr, "%s\n", usable.error().message.c_str());
  return usable.ok() ? 0 : 1;
}

int join_main(int argc, char** argv) {
  static const option kOptions[] = {{"controller", 1, nullptr, 'c'}, {"token", 1, nullptr, 't'},
                                    {"node", 1, nullptr, 'n'},       {"pki", 1, nullptr, 'p'},
                                    {"help", 0, nullptr, 'h'},       {nullptr, 0, nullptr, 0}};
  std::string controller, token, node, pki = "/var/lib/lockstep/pki";
  char name[] = "lockstep node join";  // as getopt's messages have it
  argv[0] = name;
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) switch (c) {
      case 'c': controller = optarg; break;
      case 't': token = optarg; break;
      case 'n': node = optarg; break;
      case 'p': pki = optarg; break;
      case 'h': fputs(kHelp, stdout); return 0;
      default: fputs("Try `lockstep node join --help`.\n", stderr); return 2;
    }
  if (optind < argc) {
    fprintf(stderr, "lockstep node join: unexpected argument: %s\nTry `lockstep node join --help`.\n", argv[optind]);
    return 2;
  }
  if (controller.empty() || token.empty()) {
    fputs("lockstep node join: --controller and --token are needed\nTry `lockstep node join --help`.\n", stderr);
    return 2;
  }
  if (node.empty()) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    node = std::string(host).substr(0, std::string(host).find('.'));
  }
  if (token == "-")
    token = line_of_stdin();
  pki = absolute_path(pki);
  const auto folder = Folder::make(pki, 0700);
  const auto joined = folder ? join(controller, token, node, pki) : Result<void>(folder.error());
  if (!joined) {
    fprintf(stderr, "lockstep node join: %s\n", joined.error().message.c_str());
    return 1;
  }
  fprintf(stderr, "%s has joined; its certificate is in %s\n", node.c_str(), pki.c_str());
  return 0;
}

}  // namespace lockstep
