// lockstepd: the controller. Reads its settings, opens what it stands on, wires it together and runs until SIGTERM.
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "apps/lockstepd/accounting.h"
#include "apps/lockstepd/backup.h"
#include "apps/lockstepd/fence.h"
#include "apps/lockstepd/options.h"
#include "apps/lockstepd/own_certificate.h"
#include "apps/lockstepd/slow_sync.h"
#include "base/check.h"
#include "base/ip_range.h"
#include "base/log_line.h"
#include "base/text.h"
#include "controller/identity.h"
#include "controller/server.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/reconcilers.h"
#include "frontends/kube/server/account_tokens.h"
#include "frontends/kube/server/server.h"
#include "frontends/kube/server/service_addresses.h"
#include "frontends/kube/server/shown_token.h"
#include "frontends/mounted/mounted.h"
#include "frontends/slurm/server/environment.h"
#include "frontends/slurm/server/explain_words.h"
#include "frontends/slurm/server/pages.h"
#include "frontends/slurm/server/words.h"
#include "io/clock.h"
#include "io/disk_reserve.h"
#include "io/event_loop.h"
#include "io/http_server.h"
#include "io/jwt.h"
#include "io/local/backup_note.h"
#include "io/local/daemon.h"
#include "io/local/service_manager.h"
#include "io/local/start_note.h"
#include "io/local/state_dir.h"
#include "io/pki.h"
#include "io/random.h"
#include "io/sha256.h"
#include "io/sqlite_log.h"
#include "io/tls_stream.h"
#include "io/web_caller.h"
#include "io/web_forward.h"

// Read by jemalloc (docs/decisions/0001-dependencies.md). Two arenas and little kept: 50,000 queued jobs fit in 60 MiB.
extern "C" const char* malloc_conf;
const char* malloc_conf = "narenas:2,dirty_decay_ms:200,muzzy_decay_ms:0";

namespace lockstep {

namespace {

constexpr std::size_t kBatchMax = 4096;  // commands under one sync

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

// Termination by signal becomes a readable descriptor; must run before any thread is started.
int block_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);  // a limit of file sizes is a full disk
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

// The wall offset that jobs see is the one recorded with the cluster.
ComposerHooks slurm_hooks(const std::string& cluster_name, const std::string& secret) {
  // Shared by both hooks, which the composer calls on the core's thread.
  const auto layouts = std::make_shared<slurm::LayoutMemory>();
  const auto facts = [cluster_name, layouts](const Tables& tables) {
    return slurm::SlurmFacts{tables.cluster ? tables.cluster->name : cluster_name,
                             tables.cluster ? tables.cluster->wall_offset : Duration{}, RealClock().wall(),
                             layouts.get()};
  };
  ComposerHooks hooks;
  hooks.attempt = [facts](LaunchAttempt& launch, const Tables& tables, const Job& job, std::size_t grant) {
    slurm::add_slurm_words(launch, tables, job, grant, facts(tables));
  };
  hooks.step = [facts, secret](LaunchStep& launch, const Tables& tables, const Job& job, const Step& step,
                               std::size_t place) {
    if (launch.pmi != Pmi::kNone)  // the same for all its nodes, and after a restart
      launch.world_secret =
          hmac_sha256_hex(secret, text_of({job.id, step.attempt, StepPart{step.number}})).substr(0, 32);
    slurm::add_slurm_words(launch, tables, job, step, place, facts(tables));
  };
  return hooks;
}

// What the disk under the directory has left for what users store, looked at now and then. A twentieth of it, 256 MiB
// at most, is not for them: accounting and the ends of what runs are written there. Without end where nobody can say.
std::uint64_t free_bytes(const std::string& dir) {
  static std::uint64_t found = UINT64_MAX;
  static Instant next;
  if (const Instant now = RealClock().boot(); now >= next) {
    next = now + millis(10);
    struct statvfs disk {};
    found = UINT64_MAX;
    if (statvfs(dir.c_str(), &disk) == 0 && disk.f_blocks > 0) {
      const std::uint64_t kept = std::min<std::uint64_t>(256 << 20, disk.f_blocks * disk.f_frsize / 20);
      const std::uint64_t free = disk.f_bavail * disk.f_frsize;
      found = free - std::min(free, kept);
    }
  }
  return found;
}

// The log grows by so much before a snapshot lets go of it. On a small disk that is less.
std::size_t snapshot_bytes(const std::string& dir, std::size_t most) {
  constexpr std::uint64_t kLeast = 16 << 20;
  struct statvfs disk {};
  if (statvfs(dir.c_str(), &disk) != 0 || disk.f_blocks == 0)
    return most;
  return std::clamp<std::uint64_t>(disk.f_blocks * disk.f_frsize / 16, kLeast, most);
}

// What everybody may see: the socket's folder and the CA's certificate. DIR/api.sock is the socket's older name.
Result<void> make_public(const StateDir& state, const std::string& socket, const std::string& certificate) {
  const Folder folder = TRY(state.folder.folder("public", serves_others() ? 0755 : 0700));
  if (const auto kept = folder.keep("ca.pem", certificate, 0644); !kept.ok())
    std::fprintf(stderr, "lockstepd: %s\n", kept.error().message.c_str());
  if (socket != folder.path() + "/api.sock")
    return {};
  ::unlinkat(state.folder.fd(), "api.sock", 0);
  if (::symlinkat("public/api.sock", state.folder.fd(), "api.sock") != 0)
    std::fprintf(stderr, "lockstepd: %s\n", os_error("cannot make the link api.sock").message.c_str());
  return {};
}

// Of a cluster that had another one: nodes with its certificates do not know us, nor we them.
std::string new_authority_text(const std::string& dir) {
  return format(
      "{0}/pki/ca.pem was missing, and the cluster has a new CA since this start: nodes with certificates of "
      "the old one cannot connect. `lockstep down --dir {0}` and `lockstep up --dir {0}` give those of this "
      "machine new ones; other machines join again with a token (`lockstep node token --help`)",
      dir);
}

// Of files that were put back or replaced under us. That ca.pem is missing the command line says by itself.
std::string replaced_authority_text(const std::string& dir, const ClusterCa& ca) {
  if (::access(ca.certificate_path().c_str(), F_OK) != 0 || ca.is_on_disk())
    return {};
  if (!ca.is_usable_on_disk())
    return format(
        "the controller goes on with the CA of its start, and would not start again: {0}/pki/ca.pem or ca.key is "
        "damaged, or they do not belong together. Put both back from a backup (BACKUP/pki) before it ends",
        dir);
  return format(
      "the controller goes on with the CA of its start, and {0}/pki holds another one: ca.pem or ca.key was changed "
      "since. `lockstep down --dir {0}` and `lockstep up --dir {0}` make it take what is there",
      dir);
}

Result<StateDir> claim(const std::string& dir) {
  StateDir state = TRY(claim_state_dir(dir));
  if (state.tightened > 0)
    std::fprintf(stderr, "lockstepd: %zu files and directories in %s were open to other users; they are closed now\n",
                 state.tightened, dir.c_str());
  if (const auto given = give_back_reserve(dir + "/reserve"); given)
    std::fprintf(stderr, "lockstepd: the disk is full: %s was given back, so that the log can be opened\n",
                 given->c_str());
  return state;
}

// Why a cluster that was restored changes nothing yet; "" = it is taken over, or was not restored.
Result<std::string> why_quiet(const std::string& dir) {
  const auto note = TRY(read_restore_note(dir));
  if (note && !note->is_whole)
    return conflict(half_restored_text(dir));
  return note ? quiet_text(*note, dir) : std::string();
}

ControllerSettings settings_of(const DaemonOptions& options, SqliteLog& log) {
  ControllerSettings settings;
  settings.engine.batch_max = kBatchMax;
  settings.engine.cluster_name = options.cluster_name;
  settings.engine.snapshot_bytes = snapshot_bytes(options.dir, settings.engine.snapshot_bytes);
  settings.engine.core.defragment = options.defragment;
  settings.engine.core.kill_invalid_dependency = options.kill_invalid_dependency;
  settings.engine.core.move_after = options.move_after;
  settings.engine.core.unkillable_after = options.unkillable_after;
  settings.engine.core.object_shares = kube::shares_of_kinds(
      {.each = {.objects_max = options.namespace_objects, .bytes_max = options.namespace_mib << 20}});
  settings.engine.core.first_job = std::max<std::uint64_t>(1, log.jobs_given());
  settings.engine.sha256_hex = sha256_hex;
  settings.engine.poison = options.dir + "/applying";
  settings.engine.low_space = [&log] { return log.low_space(); };
  settings.tell = [](const std::vector<std::string>& lines) { log_lines(LogLevel::kInfo, lines); };
  settings.api.cluster_name = options.cluster_name;
  settings.api.word = slurm::put_in_words;
  if (!serves_others())
    settings.api.only_uid = geteuid();
  return settings;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0)
    return out;
  for (const ifaddrs* one = all; one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof address);
      out.push_back(ip_text(ntohl(address.sin_addr.s_addr)));
    }
  freeifaddrs(all);
  return out;
}

ApiPowers powers_of(const DaemonOptions& options, ClusterCa& ca) {
  ApiPowers powers;
  powers.sha256_hex = sha256_hex;
  powers.random_hex = random_hex;
  powers.hmac_sha256_hex = hmac_sha256_hex;
  powers.sign = [&ca](const std::string& csr, const std::string& name,
                      const std::string& role) -> Result<SignedCertificate> {
    const auto colon = name.find(':');
    std::string pem = TRY(ca.sign(csr, {name, role, {colon == std::string::npos ? name : name.substr(colon + 1)}}));
    std::string serial = TRY(read_certificate(pem)).serial;
    CHECK(!serial.empty());
    return SignedCertificate{std::move(pem), std::move(serial)};
  };
  powers.free_bytes = [&options] { return free_bytes(options.dir); };
  powers.own_addresses = own_addresses;
  powers.ca_pem = ca.certificate_pem();
  powers.ca_fingerprint = ca.fingerprint();
  powers.ca_notice = [&options, &ca] {
    std::string replaced = replaced_authority_text(options.dir, ca);
    return replaced.empty() ? authority_end_text(ca) : replaced;
  };
  CHECK(!powers.ca_pem.empty() && !powers.ca_fingerprint.empty());
  return powers;
}

// An IPv4 address of this machine at which others reach what listens at `listened`; "" = there is none.
std::string address_for_pods(const std::string& listened) {
  if (listened != "0.0.0.0")
    return parse_ip(listened) ? listened : std::string();
  std::string found = "127.0.0.1";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0)
    return found;
  for (const ifaddrs* one = all; one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_LOOPBACK) == 0 &&
        found == "127.0.0.1") {
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof address);
      found = ip_text(ntohl(address.sin_addr.s_addr));
    }
  freeifaddrs(all);
  return found;
}

// Servers of aggregated APIs believe what headers say of a user where the certificate of the front proxy is shown: its
// name is no user's, and stands in kube-system/extension-apiserver-authentication.
kube::PassesOn passes_on(const ClusterCa& ca, EventLoop& loop) {
  struct Passed final : kube::PassedOn {
    explicit Passed(std::shared_ptr<WebForwarding> made) : forwarding(std::move(made)) {}
    void pause(bool paused) override { forwarding->pause(paused); }
    std::shared_ptr<WebForwarding> forwarding;
  };
  auto made = make_key_and_request(kube::kFrontProxyName);
  auto signed_ = made.ok() ? ca.sign(made->request_pem, {kube::kFrontProxyName, "front-proxy", {}})
                           : Result<std::string>(made.error());
  if (!signed_.ok()) {
    log_line(LogLevel::kWarning, "lockstepd: aggregated APIs are not reached: " + signed_.error().message);
    return {};
  }
  return [&loop, key = made->key_pem, certificate = *signed_](kube::PassedRequest request, kube::PassedAnswer told) {
    WebForward ask;
    ask.address = std::move(request.address);
    ask.port = request.port;
    ask.trust = {std::move(request.server_name), std::move(request.ca_pem), request.anybody, certificate, key};
    ask.method = std::move(request.method);
    ask.head = std::move(request.head);
    ask.body = std::move(request.body);
    ask.patience = request.patience;
    ask.through = std::move(request.through);
    return std::make_shared<Passed>(
        web_forward(loop, std::move(ask),
                    {.head = [head = std::move(told.head)](ReplyHead got) { head(got.status, std::move(got.headers)); },
                     .body = std::move(told.body),
                     .end = std::move(told.end)}));
  };
}

kube::RequestSigner signs_requests(const ClusterCa& ca) {
  using Subject = kube::RequestSigner::Subject;
  return {.subject = [](const std::string& pem) -> Result<Subject> {
            RequestFacts facts = TRY(read_request(pem));
            return Subject{std::move(facts.name), std::move(facts.groups)};
          },
          .sign = [&ca](const std::string& pem, const Subject& subject,
                        Duration valid) { return ca.sign_guest(pem, subject.name, subject.groups, valid); }};
}

// Kubernetes' API, on the same port. port: where the controller listens, known before anybody can ask.
void mount_kube(ControllerSettings& settings, const DaemonOptions& options, const ClusterCa& ca,
                std::shared_ptr<const JwtSigner> signer, const std::shared_ptr<std::uint16_t>& port, EventLoop& loop) {
  kube::KubePowers powers;
  powers.random_hex = random_hex;
  powers.sha256_hex = [](std::string_view bytes) { return sha256_hex(bytes); };
  powers.sha1 = [](std::string_view bytes) { return sha1(bytes); };
  powers.ca_pem = ca.certificate_pem();
  powers.address = [port, address = options.address] {
    return format("https://{}:{}", address == "0.0.0.0" ? "127.0.0.1" : address, *port);
  };
  powers.tokens.sign = [signer](std::string_view claims) { return signer->sign(claims); };
  powers.tokens.verify = [signer](std::string_view token) { return signer->verify(token); };
  powers.tokens.key_set = [signer] { return signer->key_set(); };
  powers.issue = [&ca](const std::string& user) -> Result<kube::KeyAndCertificate> {
    KeyAndRequest made = TRY(make_key_and_request("user:" + user));
    std::string certificate = TRY(ca.sign(made.request_pem, {"user:" + user, kUserRole, {}}));
    return kube::KeyAndCertificate{std::move(made.key_pem), std::move(certificate)};
  };
  powers.over_tls = [](std::unique_ptr<Stream> below) { return tls_over(std::move(below)); };
  powers.own_addresses = own_addresses;
  powers.call = [caller = std::make_shared<WebCaller>(loop)](kube::CallOut out,
                                                             std::function<void(Result<std::string>)> then) {
    caller->call({std::move(out.address), out.port, std::move(out.server_name), std::move(out.ca_pem),
                  std::move(out.target), std::move(out.body), out.timeout, std::move(out.through)},
                 [then = std::move(then)](Result<WebAnswer> answer) {
                   if (!answer.ok())
                     return then(answer.error());
                   if (answer->status != 200)
                     return then(Error{Errc::kUnavailable, format("the server answers with {}", answer->status), {}});
                   then(std::move(answer->body));
                 });
  };
  powers.pass_on = passes_on(ca, loop);
  powers.post = [&loop](std::function<void()> task) { loop.post(std::move(task)); };
  const kube::KubeServer server(std::move(powers), options.cluster_name);
  settings.api.routes = std::make_shared<const Routes>(front_end_routes(server));
  settings.api.readers = server.readers();
  settings.api.front_actor = [ca_pem = ca.certificate_pem(), uses = server.uses(), admission = server.pod_admission(),
                              port, address = address_for_pods(options.address), signer = signs_requests(ca)] {
    return std::make_unique<kube::Reconcilers>(
        kube::all_controllers(
            ca_pem, uses, [port, address] { return address.empty() ? std::string() : format("{}:{}", address, *port); },
            signer),
        admission);
  };
}

// Where the controller can be reached, for who runs it. Nobody needs it to reach us.
void tell_whereabouts(const StateDir& state, const DaemonOptions& options, std::uint16_t port, const ClusterCa& ca) {
  CHECK(port != 0);
  const auto told = state.folder.write("controller.json",
                                       format("{{\"pid\":{},\"address\":\"{}\",\"port\":{},\"ca\":\"{}\"}}\n", getpid(),
                                              options.address, port, ca.fingerprint()),
                                       0600);
  if (!told.ok())  // on a full disk
    std::fprintf(stderr, "lockstepd: %s\n", told.error().message.c_str());
}

// A port that another program holds is the one thing that an administrator meets at the first start.
Result<std::uint16_t> listen(HttpServer& server, const DaemonOptions& options, const TlsFiles& tls) {
  auto port = server.listen_tls(options.address, options.port, tls);
  if (!port && port.error().code == Errc::kConflict)
    return conflict(format(
        "port {0} on {1} is taken by another program, which `ss -ltnp sport = :{0}` names for root. End that one, "
        "or use another port: --listen ADDR:PORT, which is LISTEN= in /etc/lockstep/lockstepd.conf where Lockstep "
        "is installed",
        options.port, options.address));
  return port;
}

Result<void> run(const DaemonOptions& options) {
  CHECK(options.dir.starts_with('/') && !options.socket.empty());
  const int signals = block_signals();
  if (signals < 0)
    return Error{Errc::kIo, "cannot wait for signals", {}};
  const StateDir state = TRY(claim(options.dir));
  const std::string quiet = TRY(why_quiet(options.dir));

  const bool is_new = ::access((options.dir + "/lockstep.db").c_str(), F_OK) != 0;

  // The log first: it takes the lock that keeps a second controller off this directory.
  SqliteLogOptions log_options;
  log_options.vfs = slow_sync_vfs();
  const auto log = TRY(open_sqlite_log(options.dir + "/lockstep.db", log_options));
  std::optional<StartNote> starting(std::in_place, state.folder);
  starting->say("the log is read", 0, TRY(log->last_index()));
  std::vector<std::string> notices;
  auto history = TRY(open_accounting(state, *log, notices));
  TRY(state.folder.folder("pki", 0700));
  const bool has_ca = ::access((options.dir + "/pki/ca.pem").c_str(), F_OK) == 0;
  const auto ca = TRY(ClusterCa::open_or_make(options.dir + "/pki", options.cluster_name));
  if (!has_ca && !is_new)
    notices.push_back(new_authority_text(options.dir));
  OwnCertificate certificate = TRY(OwnCertificate::of(
      *ca, {"controller",
            kControllerRole,
            {"controller", "localhost", "127.0.0.1", options.address, host_name(), "kubernetes", "kubernetes.default",
             "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", kube::kApiAddress}}));

  close_to_others(state);  // certificates are made readable to everybody

  const RealClock clock;
  const auto loop = make_event_loop();
  ControllerSettings settings = settings_of(options, *log);
  settings.engine.quiet = quiet;
  std::string deposed;
  settings.deposed = [&](const std::string& why) {
    deposed = why;
    loop->stop();
  };
  settings.starting = [&](const std::string& what, std::uint64_t entry, std::uint64_t last) {
    starting->say(what, entry, last);
  };
  const ApiPowers powers = powers_of(options, *ca);
  const auto own_port = std::make_shared<std::uint16_t>();
  const std::shared_ptr<const JwtSigner> signer =
      TRY(JwtSigner::open_or_make(options.dir + "/pki/service-accounts.key"));
  mount_kube(settings, options, *ca, signer, own_port, *loop);

  const auto open_controller = [&] {
    settings.api.notices = log->notices();
    settings.api.notices.insert(settings.api.notices.end(), notices.begin(), notices.end());
    return ControllerLoop::open({*loop, *log, *log, *history, clock}, settings, powers,
                                slurm_hooks(options.cluster_name, ca->secret_for("worlds of tasks")),
                                make_fence_hook(options.dir, options.fence_command, options.fence_silence));
  };
  auto opened_controller = open_controller();
  if (!opened_controller.ok() && opened_controller.error().field == kHistoryField &&
      is_damaged_accounting(state, opened_controller.error())) {
    history.reset();
    history = TRY(renew_accounting(state, opened_controller.error().message, notices));
    opened_controller = open_controller();
  }
  for (const auto& told : {log->notices(), notices})
    for (const auto& notice : told) log_line(LogLevel::kWarning, "lockstepd: " + notice);
  const auto controller = TRY(std::move(opened_controller));

  HttpLimits limits;
  limits.proven_user = [signer](const HttpRequest& head) {
    const auto shown = kube::shown_token(head);
    const auto claims = shown.ok() && !shown->empty() ? signer->verify(*shown) : std::nullopt;
    return claims ? kube::subject_of(*claims) : std::string();
  };
  limits.body_bound = [routes = settings.api.routes, proven = limits.proven_user](const HttpRequest& head) {
    return routes->body_bound(head, head.peer.how == Peer::How::kNobody && !proven(head).empty());
  };
  auto server = make_http_server(
      *loop, [&](std::shared_ptr<HttpExchange> exchange) { controller->handle(std::move(exchange)); }, limits);
  const auto opened = make_public(state, options.socket, ca->certificate_pem());
  if (!opened.ok())
    return opened.error();
  TRY(server->listen_unix(options.socket, socket_mode()));
  const std::uint16_t port = TRY(listen(*server, options, certificate.files()));
  *own_port = port;
  tell_whereabouts(state, options, port, *ca);
  log_line(LogLevel::kInfo, format("lockstepd: pid {}, log at entry {}, listening on {} and {}:{}", getpid(),
                                   TRY(log->last_index()), options.socket, options.address, port));

  certificate.keep(*loop, *server);
  starting.reset();
  loop->watch(signals, [&] { loop->stop(); });
  controller->start();
  tell_service_manager(format("READY=1\nSTATUS=listening on {} and {}:{}", options.socket, options.address, port));
  loop->run();

  tell_service_manager("STOPPING=1");
  log_line(LogLevel::kInfo, "lockstepd: ending");
  server.reset();
  controller->stop();
  ::close(signals);
  if (!deposed.empty())  // the socket is the other one's
    return conflict(deposed);
  ::unlink(options.socket.c_str());
  return {};
}

}  // namespace

}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  close_behind_us(077);
  const auto options = parse_options(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "lockstepd: error: %s\n", options.error().message.c_str());
    return 2;
  }
  if (options->version) {
    puts("lockstepd " LOCKSTEP_VERSION);
    return 0;
  }
  if (options->help) {
    std::fputs(kDaemonHelp, stdout);
    return 0;
  }
  if (options->rights) {
    std::fputs(Routes(front_end_rows()).rights_table().c_str(), stdout);
    return 0;
  }
  if (!options->backup.empty())
    return backup_main(*options);
  if (!options->restore.empty())
    return restore_main(*options);
  if (options->serve_everyone)
    serve_everyone();
  if (const auto done = run(*options); !done.ok()) {
    log_line(LogLevel::kError, "lockstepd: error: " + done.error().message);
    tell_service_manager("STATUS=error: " + done.error().message);
    return 1;
  }
  return 0;
}
