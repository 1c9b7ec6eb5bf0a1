#include "services_program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <netdb.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/ip_range.h"
#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "health_ports.h"
#include "held_ports.h"
#include "io/errand.h"
#include "io/event_loop.h"
#include "io/fd_stream.h"
#include "io/local/process.h"
#include "io/local/state_dir.h"
#include "io/sha256.h"
#include "name_server.h"
#include "services/conntrack.h"
#include "services/culprits.h"
#include "services/line_stream.h"
#include "services/packet_rules.h"

extern "C" char** environ;

namespace lockstep {
namespace {

constexpr Duration kTogether = millis(20);  // changes that come so close are made in one go
constexpr Duration kAgainMin = millis(100), kAgainMax = seconds(5);
constexpr Duration kMendEvery = seconds(30);  // somebody may have taken our table away
constexpr Duration kLookAtSettings = seconds(2);
constexpr Duration kTakeOver = seconds(5);  // that the one before has for its end
constexpr Duration kStartAgainMin = seconds(1);
constexpr std::size_t kReportsMax = 16;  // under way
constexpr std::size_t kNetlinkBytes = 64 << 10;
constexpr const char* kNft = "nft";
constexpr const char* kForwarding = "/proc/sys/net/ipv4/ip_forward";

std::string read_small(const std::string& path) {
  auto text = read_plain(path, Links::kFollowed);
  return text ? std::move(*text) : std::string();
}

Result<AgentFile> settings_in(const std::string& path) {
  return decode_agent_file(TRY(read_plain(path, Links::kFollowed)));
}

// One table for a cluster, by its authority.
std::string table_of(const AgentFile& settings) {
  return "lockstep-" + sha256_hex(read_small(settings.ca)).substr(0, 8);
}

std::string address_of_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0 || !found)
    return {};
  sockaddr_in address{};
  ::memcpy(&address, found->ai_addr, sizeof address);
  ::freeaddrinfo(found);
  return ip_text(ntohl(address.sin_addr.s_addr));
}

// Whatever fails costs those flows half a minute.
void forget_flows(const PacketRules::StaleFlows& stale) {
  if (stale.gone.empty() && stale.opened.empty())
    return;
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  if (fd < 0)
    return;
  const timeval patience{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const std::string ask = conntrack_dump_request(1);
  std::vector<std::string> gone;
  std::string bytes(kNetlinkBytes, '\0');
  if (::send(fd, ask.data(), ask.size(), 0) == static_cast<ssize_t>(ask.size()))
    for (bool is_end = false; !is_end;) {
      const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), 0);
      if (n <= 0)
        break;
      auto part = read_conntrack(std::string_view(bytes).substr(0, static_cast<std::size_t>(n)), stale);
      is_end = part.is_end;
      gone.insert(gone.end(), std::make_move_iterator(part.gone.begin()), std::make_move_iterator(part.gone.end()));
    }
  for (const std::string& one : gone)
    if (::send(fd, one.data(), one.size(), 0) > 0)
      (void)::recv(fd, bytes.data(), bytes.size(), 0);
  ::close(fd);
}

// The one of this node's that ran before has the lock; it leaves everything as it is.
Result<int> take_over(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    return os_error(path);
  const Instant until = boot_now() + kTakeOver;
  for (bool told = false;;) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (::fcntl(fd, F_SETLK, &lock) == 0)
      return fd;
    struct flock holder {};
    holder.l_type = F_WRLCK;
    holder.l_whence = SEEK_SET;
    const bool is_late = boot_now() >= until;
    if (::fcntl(fd, F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK && holder.l_pid > 0 && (!told || is_late))
      ::kill(holder.l_pid, is_late ? SIGKILL : SIGTERM);
    told = true;
    if (boot_now() >= until + kTakeOver)
      return conflict(format("{} is held by process {}, which does not end", path, holder.l_pid));
    ::usleep(10'000);
  }
}

// Of all it may do as root it keeps what the packet filter, addresses and port 53 take.
Result<void> keep_little() {
  constexpr std::uint32_t kKept = 1u << CAP_NET_BIND_SERVICE | 1u << CAP_NET_ADMIN | 1u << CAP_NET_RAW;
  for (int one = 0; one <= CAP_LAST_CAP; ++one)
    if (one >= 32 || (kKept >> one & 1) == 0)
      (void)::prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct parts[2]{};
  parts[0].effective = parts[0].permitted = kKept;
  if (::syscall(SYS_capset, &head, parts) != 0)
    return os_error("cannot give up what is not needed");
  return {};
}

class ServicesNode {
 public:
  ServicesNode(EventLoop& loop, AgentFile settings, std::string settings_path)
      : loop_(loop),
        settings_(std::move(settings)),
        settings_path_(std::move(settings_path)),
        table_(table_of(settings_)),
        rules_({table_, settings_.node, settings_.task_range, address_of_host(settings_.controller_host),
                settings_.controller_port}),
        names_(loop, view_),
        health_(loop),
        errand_(loop) {}

  void start() {
    (void)write_file_plainly(kForwarding, "1\n");
    dial();
    look_at_settings();
    mend_later();
  }

 private:
  // /proc takes no file in exchange for its own.
  static Result<void> write_file_plainly(const char* path, std::string_view text) {
    const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
    const bool done = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (fd >= 0)
      ::close(fd);
    return done ? Result<void>() : Result<void>(os_error(path));
  }

  // --- what is told ---

  void dial() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (settings_.socket.size() >= sizeof address.sun_path)
      return tell("the agent's socket has a path that is too long: " + settings_.socket);
    settings_.socket.copy(address.sun_path, settings_.socket.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      if (fd >= 0)
        ::close(fd);
      return dial_later();
    }
    stream_ = std::make_unique<FdStream>(loop_, fd, nullptr);
    lines_ = std::make_unique<LineStream>(kServiceLineMax, [this](std::string_view line) { hear(line); });
    stream_->on_data([this, number = ++dials_](std::string_view bytes) {
      if (number != dials_)
        return;
      const auto more = lines_->feed(bytes);
      if (!more.ok() && more.error().code != Errc::kUnavailable)
        tell("the table of services: " + more.error().message);
      if (!more.ok() || *more)
        hang_up(number);
    });
    stream_->on_close([this, number = dials_] { hang_up(number); });
    std::string target = kServiceTablePath;
    if (const auto& mark = view_.mark(); mark && view_.is_whole())
      target += format("?epoch={}&version={}", mark->epoch, mark->version);
    stream_->write(format("GET {} HTTP/1.1\r\nHost: lockstep\r\n\r\n", target));
  }

  void hang_up(std::uint64_t number) {
    loop_.post([this, number] {
      if (number != dials_ || !stream_)
        return;
      stream_.reset();
      dial_later();
    });
  }

  void dial_later() {
    backoff_ = std::clamp(Duration{backoff_.us * 2}, kAgainMin, kAgainMax);
    loop_.after(backoff_, [this] { dial(); });
  }

  void hear(std::string_view line) {
    auto read = decode_service_line(line);
    if (!read.ok())
      return tell(format("a line of the table of services is not understood: {}", read.error().message));
    backoff_ = {};
    view_.hear(std::move(*read));
    make_soon();
  }

  // --- what is made ---

  void make_soon() {
    if (!view_.is_whole() || std::exchange(is_due_, true))
      return;
    loop_.after(kTogether, [this] {
      is_due_ = false;
      make();
    });
  }

  void make() {
    if (errand_.is_out()) {
      again_ = true;
      return;
    }
    take_changes();
    answer_names();
    health_.keep(rules_.health_ports());
    rules_.leave_out(view_, culprits_.left_out());
    hold_ports();
    tell_beyond();
    const std::string text = is_settled_ ? rules_.since_settled() : rules_.whole();
    if (text.empty() && culprits_.is_looking()) {  // nothing of those in doubt is the filter's
      culprits_.tried(true);
      return make();
    }
    if (text.empty())
      return;
    const auto stale = rules_.stale_udp();
    doubtful_ = rules_.unsettled();
    rules_.settle();
    const auto begun = errand_.start(
        [text, stale]() -> Result<void> {
          TRY(run_program({kNft, "-f", "-"}, text));
          forget_flows(stale);
          return {};
        },
        [this](Result<void> done) { made(std::move(done)); });
    if (!begun.ok())
      made(begun.error());
  }

  void tell_beyond() {
    for (const ServiceKey& key : rules_.beyond_bounds())
      if (told_beyond_.insert(key).second)
        report(key, "beyond");
    std::erase_if(told_beyond_, [this](const ServiceKey& key) { return !rules_.beyond_bounds().contains(key); });
  }

  // An event about the Service. What cannot be told now stands in the log alone.
  void report(const ServiceKey& key, const char* what) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (reports_.size() >= kReportsMax || settings_.socket.size() >= sizeof address.sun_path)
      return;
    settings_.socket.copy(address.sun_path, settings_.socket.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      if (fd >= 0)
        ::close(fd);
      return;
    }
    const std::uint64_t id = ++reports_made_;
    auto& stream = reports_[id] = std::make_unique<FdStream>(loop_, fd, nullptr);
    const auto over = [this, id] { loop_.post([this, id] { reports_.erase(id); }); };
    stream->on_data([over](std::string_view) { over(); });  // its status is enough
    stream->on_close(over);
    stream->write(
        format("POST /v1/service-faults?space={}&name={}&what={} HTTP/1.1\r\nHost: lockstep\r\n"
               "Content-Length: 0\r\nConnection: close\r\n\r\n",
               key.first, key.second, what));
  }

  void hold_ports() {
    std::set<PacketRules::NodePort> taken = ports_.hold(rules_.node_ports());
    for (const auto& [protocol, port] : taken)
      if (!taken_ports_.contains({protocol, port}))
        log_line(LogLevel::kWarning, format("lockstep-agent services: node port {}/{} is not led to its service from "
                                            "this node: something else listens there",
                                            port, protocol));
    taken_ports_ = taken;
    rules_.set_taken(view_, std::move(taken));
  }

  // A service that has changed is tried again, whatever was found of it.
  void take_changes() {
    const ServiceView::Changes changes = view_.take_changes();
    for (const ServiceKey& key : changes.services) culprits_.forget(key);
    rules_.update(view_, changes);
  }

  // What failed is made anew and whole: without what was new first, and then without those services that the filter
  // does not take. Where it takes nothing at all, that is tried again later.
  void made(Result<void> done) {
    is_settled_ = done.ok();
    const bool again = std::exchange(again_, false);
    const bool was_looking = culprits_.is_looking();
    const std::size_t found = culprits_.found().size();
    if (was_looking)
      culprits_.tried(done.ok());
    if (culprits_.found().size() > found && !done.ok())
      tell_culprits(done.error().message);
    if (done.ok() && !was_looking && culprits_.found().empty())
      last_told_.clear();
    if (!done.ok() && !was_looking) {
      tell(format("services lead nowhere from this node: {}", done.error().message.substr(0, 1024)));
      std::set<ServiceKey> doubtful = std::exchange(doubtful_, {});
      for (const ServiceKey& known : culprits_.found()) doubtful.erase(known);
      culprits_.begin(std::move(doubtful));
    }
    const bool gave_up = !done.ok() && !culprits_.is_looking() && culprits_.found().size() == found;
    if (gave_up)
      return void(loop_.after(kAgainMax, [this] { make(); }));
    if (again || !done.ok() || culprits_.is_looking() || was_looking)
      make();
  }

  void tell_culprits(const std::string& why) {
    for (const ServiceKey& key : culprits_.found())
      if (told_culprits_.insert(key).second) {
        log_line(LogLevel::kWarning,
                 format("lockstep-agent services: service {} of {} leads nowhere from this node until it changes: the "
                        "packet filter does not take it: {}",
                        key.second, key.first, why.substr(0, 1024)));
        report(key, "refused");
      }
    std::erase_if(told_culprits_, [this](const ServiceKey& key) { return !culprits_.found().contains(key); });
  }

  // The address is this node's while it answers there.
  void answer_names() {
    const std::string& wanted = rules_.names_address();
    if (wanted == names_at_)
      return;
    if (!names_at_.empty()) {
      names_.close();
      (void)run_and_hear({"ip", "addr", "del", names_at_ + "/32", "dev", "lo"});
      names_at_.clear();
    }
    if (wanted.empty())
      return;
    auto ready = run_program({"ip", "addr", "replace", wanted + "/32", "dev", "lo"});
    if (ready)
      ready = names_.listen(wanted);
    if (ready)
      names_at_ = wanted;
    else
      tell(ready.error().message);
  }

  void mend_later() {
    loop_.after(kMendEvery, [this] {
      if (is_settled_ && !errand_.is_out()) {
        const auto there = run_and_hear({kNft, "list", "chain", "ip", table_, "leaving"});
        if (!there.ok() || there->code != 0) {
          tell(format("the table {} of the packet filter was taken away: it is made anew", table_));
          is_settled_ = false;
        }
      }
      if (view_.is_whole() &&
          (!is_settled_ || names_at_ != rules_.names_address() || ports_.hold(rules_.node_ports()) != taken_ports_))
        make();
      mend_later();
    });
  }

  // Where the node has left the cluster its settings are gone.
  void look_at_settings() {
    loop_.after(kLookAtSettings, [this] {
      if (::access(settings_path_.c_str(), F_OK) == 0 || errno != ENOENT)
        return look_at_settings();
      if (!names_at_.empty())
        (void)run_and_hear({"ip", "addr", "del", names_at_ + "/32", "dev", "lo"});
      (void)run_program({kNft, "-f", "-"}, PacketRules::removal(table_));
      loop_.stop();
    });
  }

  void tell(const std::string& what) {
    if (what != last_told_)
      log_line(LogLevel::kWarning, "lockstep-agent services: " + what);
    last_told_ = what;
  }

  EventLoop& loop_;
  AgentFile settings_;
  std::string settings_path_, table_;
  ServiceView view_;
  PacketRules rules_;
  NameServer names_;
  HealthPorts health_;
  Errand errand_;
  std::unique_ptr<FdStream> stream_;
  std::unique_ptr<LineStream> lines_;
  std::uint64_t dials_ = 0;
  Duration backoff_;
  std::string names_at_, last_told_;
  bool is_settled_ = false;  // the packet filter has what rules_ had when it was settled
  bool is_due_ = false, again_ = false;
  HeldPorts ports_;
  std::set<PacketRules::NodePort> taken_ports_;
  Culprits culprits_;
  std::set<ServiceKey> doubtful_, told_culprits_, told_beyond_;
  std::map<std::uint64_t, std::unique_ptr<FdStream>> reports_;  // under way
  std::uint64_t reports_made_ = 0;
};

// Another cluster's node in the same network: both would lead the same addresses.
std::string other_table(const std::string& own) {
  const auto said = run_and_hear({kNft, "list", "tables", "ip"});
  if (said.ok())
    for (const std::string& line : split(said->out, '\n')) {
      const auto words = split_words(line);
      if (words.size() == 3 && words[2].starts_with("lockstep-") && words[2] != own)
        return words[2];
    }
  return {};
}

Result<void> run(const std::string& path) {
  const AgentFile settings = TRY(settings_in(path));
  if (const std::string why = why_no_services(settings); !why.empty())
    return Error{Errc::kUnsupported, why, {}};
  const int lock = TRY(take_over(absolute_path(settings.state_dir) + "/services.lock"));
  if (const std::string other = other_table(table_of(settings)); !other.empty())
    return conflict(format(
        "another cluster's node leads services here: table {0} of the packet filter. Where that node is gone: nft "
        "delete table ip {0}",
        other));
  sigset_t ending;
  ::sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGINT}) ::sigaddset(&ending, signal);
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  const int signals = ::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
  TRY(keep_little());
  const auto loop = make_event_loop();
  {
    ServicesNode node(*loop, settings, path);
    loop->watch(signals, [&loop] { loop->stop(); });
    node.start();
    loop->run();
    loop->unwatch(signals);
  }
  ::close(signals);
  ::close(lock);
  return {};
}

}  // namespace

std::string why_no_services(const AgentFile& settings) {
  if (settings.task_range.empty() || ::geteuid() != 0)
    return "tasks get no addresses here";
  const auto there = run_and_hear({kNft, "--version"});
  return there.ok() && there->code == 0 ? std::string()
                                        : "services' addresses and names lead nowhere here: the package nftables is "
                                          "not installed";
}

int services_main(int argc, char** argv) {
  static const option kOptions[] = {{"settings", required_argument, nullptr, 's'}, {nullptr, 0, nullptr, 0}};
  std::string path;
  for (int c; (c = ::getopt_long(argc, argv, "", kOptions, nullptr)) != -1;)
    if (c == 's')
      path = optarg;
  if (path.empty()) {
    ::fputs("lockstep-agent services: --settings FILE is needed\n", stderr);
    return 2;
  }
  ::prctl(PR_SET_NAME, "lockstep-svc");
  const auto ran = run(absolute_path(path));
  if (!ran.ok())
    log_line(LogLevel::kError, "lockstep-agent services: " + ran.error().message);
  return ran.ok() ? 0 : 1;
}

// --- in the agent ---

ServicesProgram::~ServicesProgram() {
  if (again_)
    loop_.cancel(again_);
  if (pidfd_ >= 0) {
    loop_.unwatch(pidfd_);
    ::close(pidfd_);
  }
}

void ServicesProgram::start() {
  again_ = 0;
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigemptyset(&usual);
  for (const int signal : {SIGTERM, SIGINT, SIGPIPE, SIGXFSZ}) ::sigaddset(&usual, signal);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string words[] = {"lockstep-agent", "services", "--settings", settings_path_};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  child_ = std::make_unique<OwnChild>([&] {
    pid_t pid = 0;
    return ::posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, argv, environ) == 0 ? pid : pid_t{0};
  });
  ::posix_spawnattr_destroy(&attributes);
  const auto later = [this] { again_ = loop_.after(kStartAgainMin, [this] { start(); }); };
  if (child_->pid() <= 0)
    return later();
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, child_->pid(), 0));
  if (pidfd_ < 0)
    return;
  ::fcntl(pidfd_, F_SETFD, FD_CLOEXEC);
  loop_.watch(pidfd_, [this, later] {
    int status = 0;
    if (::waitpid(child_->pid(), &status, WNOHANG) != child_->pid())
      return;
    child_.reset();
    loop_.unwatch(pidfd_);
    ::close(std::exchange(pidfd_, -1));
    later();
  });
}

}  // namespace lockstep
