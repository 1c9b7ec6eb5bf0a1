#include "join.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "base/ip_range.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/clock.h"
#include "io/local/folder.h"
#include "io/pki.h"
#include "model/agent_messages.h"
#include "renewal.h"
#include "wire/local_files.h"

namespace lockstep {

namespace {

constexpr const char* kHelp =
    R"help(Usage: lockstep-agent join --controller HOST:PORT --token TOKEN [--node NAME] [--pki DIR]

Makes a key here, has the cluster sign it, and keeps both with the cluster's CA in DIR (default /var/lib/lockstep/pki).
`lockstep node join` does this and everything else that makes a machine a node.
The token comes from `lockstep node token` on the controller's machine; it works once and carries the CA's fingerprint,
so the answer can only come from that cluster. --token - reads it from stdin: arguments can be seen by every user of the
machine. DIR may not lie where others could exchange it. Then start the agent with a settings file that names these files.

Example
  lockstep-agent join --controller 10.0.0.1:6820 --token 3f2a….b17c….9d0e… --node gpu17
)help";

Result<HttpsServer> parse_controller(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_uint(text.substr(colon + 1));
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host.empty() || !port || *port == 0 || *port > 65535)
    return invalid(format("--controller {}: write HOST:PORT", text));
  HttpsServer server;
  server.host = std::move(host);
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

constexpr Duration kClocksApart = minutes(5);  // half of what certificates bear with

Result<CertificateFacts> read_facts_of(const std::string& path) {
  return read_certificate(TRY(read_plain(path, Links::kRefused)));
}

std::string where(const HttpsServer& server) { return format("{} port {}", server.host, server.port); }

std::string clock_text(std::int64_t wall_us) {
  const time_t when = wall_us / 1'000'000;
  tm local{};
  char text[32] = "";
  if (localtime_r(&when, &local))
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

Result<Ping> ping(const HttpsServer& server) {
  const auto reply = TRY(https_call(server, "/v1/ping", {}, seconds(10)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return decode_ping(reply.body);
}

// Before the token is shown to anybody: whether it is that cluster's controller, and fits.
Result<void> look_at_controller(HttpsServer server) {
  auto answer = ping(server);
  if (!answer && answer.error().code == Errc::kDenied && !server.ignores_time) {
    server.ignores_time = true;
    if (const auto despite = ping(server); despite)
      TRY(check_fits(*despite, RealClock().wall().us, where(server)));
  }
  if (!answer && answer.error().code == Errc::kDenied)
    return denied(
        format("{}. Is {} the controller of the cluster that made the token? If its CA was made anew, so must the "
               "token be: lockstep node token",
               answer.error().message, where(server)));
  if (!answer && answer.error().message.starts_with("cannot find the address"))
    return Error{answer.error().code, format("{}: is the name right?", answer.error().message), {}};
  if (!answer)
    return Error{answer.error().code,
                 format("{}. Is the controller up and does it listen there for other machines (`lockstep up --listen "
                        "ADDR` on its machine), and does no firewall keep TCP port {} closed?",
                        answer.error().message, server.port),
                 {}};
  return check_fits(*answer, RealClock().wall().us, where(server));
}

Result<void> join_by_token(const HttpsServer& server, const std::string& token, const std::string& node,
                           const std::string& pki) {
  const KeyAndRequest fresh = TRY(make_key_and_request("node:" + node));
  const auto reply = TRY(https_call(server, "/v1/join", encode(JoinRequest{token, node, fresh.request_pem})));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  const JoinAnswer answer = TRY(decode_join_answer(reply.body));
  const TlsFiles files = files_in(pki);
  TRY(write_file_durably(files.key, fresh.key_pem, 0600));
  TRY(write_file_durably(files.ca, answer.ca, 0644));
  TRY(write_file_durably(files.certificate, answer.certificate, 0644));
  // For the settings of the node.
  if (parse_ip(answer.address))
    printf("%s%s\n", kGivenAddress.data(), answer.address.c_str());
  if (parse_ip_range(answer.task_range))
    printf("%s%s\n", kGivenRange.data(), answer.task_range.c_str());
  return {};
}

Result<void> look_and_join(const std::string& controller, const std::string& token, const std::string& node,
                           const std::string& pki) {
  HttpsServer server = TRY(parse_controller(controller));
  const auto parts = split(token, '.');
  if (parts.size() != 3 || parts[2].size() != 64)
    return invalid("--token: this is no token of `lockstep node token`: it has three parts with points between them");
  server.ca_sha256 = parts[2];
  TRY(look_at_controller(server));
  bool made = false;
  TRY(Folder::make(pki, 0700, &made));
  const auto joined = join_by_token(server, token, node, pki);
  if (!joined && made)
    ::rmdir(pki.c_str());
  return joined;
}

}  // namespace

Result<void> check_fits(const Ping& ping, std::int64_t wall_us, const std::string& where) {
  const Duration apart{wall_us - ping.wall_us};
  if (ping.wall_us != 0 && (apart > kClocksApart || apart < Duration{} - kClocksApart))
    return conflict(format(
        "the clock of this machine says {}, that of the controller at {} {}: they are {} s apart, and at most {} s are "
        "allowed. Set the one that is wrong (timedatectl set-ntp true) and run this again",
        clock_text(wall_us), where, clock_text(ping.wall_us), std::abs(apart.seconds()), kClocksApart.seconds()));
  if (ping.protocol_max != 0 && (ping.protocol_min > kProtocolMax || ping.protocol_max < kProtocolMin))
    return conflict(format(
        "the controller at {} is Lockstep {} and speaks protocols {} to {} with agents; this machine has Lockstep {}, "
        "which speaks {} to {}. Install the controller's version here",
        where, ping.version, ping.protocol_min, ping.protocol_max, LOCKSTEP_VERSION, kProtocolMin, kProtocolMax));
  return {};
}

int check_main(int argc, char** argv) {
  if (argc != 2) {
    fputs("lockstep-agent check: DIR is needed\nTry `lockstep-agent --help`.\n", stderr);
    return 2;
  }
  const TlsFiles files = files_in(argv[1]);
  // A renewal that was cut short is brought to its end only where it must be: an agent may be in the middle of one.
  auto usable = check_usable(files);
  if (!usable && settle_renewal(files))
    usable = check_usable(files);
  const auto certificate = usable ? read_facts_of(files.certificate) : Result<CertificateFacts>(usable.error());
  const auto authority = certificate ? read_facts_of(files.ca) : certificate;
  if (!authority) {
    fprintf(stderr, "%s\n", authority.error().message.c_str());
    return 1;
  }
  if (certificate->expires <= RealClock().wall()) {
    fprintf(stderr, "%s ended on %s\n", files.certificate.c_str(), clock_text(certificate->expires.us).c_str());
    return 1;
  }
  printf("ca %s\nname %s\nexpires %s\n", authority->fingerprint.c_str(), certificate->name.c_str(),
         clock_text(certificate->expires.us).c_str());
  return 0;
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
  const auto joined = look_and_join(controller, token, node, pki);
  if (!joined) {
    fprintf(stderr, "lockstep node join: %s\n", joined.error().message.c_str());
    return 1;
  }
  fprintf(stderr, "%s has joined; its certificate is in %s\n", node.c_str(), pki.c_str());
  return 0;
}

}  // namespace lockstep
