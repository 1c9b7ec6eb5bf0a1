#include "shim/container_reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/plain_file.h"
#include "base/text.h"
#include "shim/console_socket.h"
#include "shim/container_frames.h"
#include "shim/container_log.h"
#include "shim/container_parent.h"
#include "shim/sandbox_keeper.h"
#include "shim/task_inheritance.h"
#include "wire/container_ask_text.h"
#include "wire/json_text.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr int kStreamIn = 0, kStreamOut = 1;
constexpr std::size_t kAskMax = 4 << 20, kHeldMax = 256 << 10, kProcessMax = 16 << 20;

std::string read_ask() {
  std::string text;
  char chunk[16 << 10];
  for (ssize_t n; (n = ::read(kReachAskFd, chunk, sizeof chunk)) > 0 && text.size() <= kAskMax;)
    text.append(chunk, static_cast<std::size_t>(n));
  ::close(kReachAskFd);
  return text;
}

void send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(kStreamOut, bytes.data(), bytes.size());
    if (n < 0 && errno == EAGAIN) {
      pollfd wait{kStreamOut, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (n <= 0 && errno != EINTR) {
      return;
    } else if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
}

int end_with(std::string_view word) {
  std::string frame;
  append_container_frame(frame, ContainerChannel::kEnd, word);
  send_all(frame);
  return 0;
}

// Which container is meant, if it has begun.
struct Target {
  std::string sandbox, container, folder;
  std::uint32_t life = 0;
};

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find('/') == name.npos && name != "." && name != "..";
}

Result<Target> find_target(const char* home, const NodeContainerAsk& asked) {
  const auto work = parse_work_id(asked.work);
  if (!work || !task_of(*work))
    return invalid("names no task");
  Target target;
  target.sandbox = sandbox_folder(home, *work);
  if (asked.ask.what == ContainerAsk::What::kPort || asked.ask.what == ContainerAsk::What::kLook)
    return target;
  if (!is_plain_name(asked.ask.container))
    return invalid("names no container");
  target.container = asked.ask.container;
  const std::string life =
      TRY(read_plain(container_folder(target.sandbox, target.container) + "/life", Links::kRefused, 64));
  const auto number = parse_uint(trim(life));
  if (!number || *number > UINT32_MAX)
    return not_found("it has not begun");
  target.life = static_cast<std::uint32_t>(*number);
  target.folder = life_folder(target.sandbox, target.container, target.life);
  return target;
}

// The log of the life before the last one that has one.
std::string previous_folder(const Target& target) {
  for (std::uint32_t life = target.life; life-- > 0;)
    if (const std::string folder = life_folder(target.sandbox, target.container, life);
        ::access(format("{}/{}", folder, kLogFile).c_str(), R_OK) == 0)
      return folder;
  return {};
}

bool set_size(int terminal, std::string_view words) {
  const auto parts = split_words(words);
  const auto columns = parts.size() == 2 ? parse_uint(parts[0]) : std::nullopt;
  const auto rows = parts.size() == 2 ? parse_uint(parts[1]) : std::nullopt;
  if (!columns || !rows || *columns > UINT16_MAX || *rows > UINT16_MAX)
    return false;
  winsize size{};
  size.ws_col = static_cast<unsigned short>(*columns);
  size.ws_row = static_cast<unsigned short>(*rows);
  return ::ioctl(terminal, TIOCSWINSZ, &size) == 0;
}

// The keeper's process holds its lock for as long as it is there: a number alone may be another's by now.
class KeeperProcess {
 public:
  explicit KeeperProcess(const std::string& sandbox) : path_(sandbox + "/keeper") {
    const auto text = read_plain(path_, Links::kRefused, 64);
    const auto pid = text.ok() ? parse_uint(trim(*text)) : std::nullopt;
    pid_ = pid && *pid <= INT32_MAX ? static_cast<pid_t>(*pid) : 0;
  }
  pid_t pid() const { return pid_; }  // 0: there is none
  bool is_there() const {
    const int lock = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    const bool there = pid_ > 0 && lock >= 0 && ::flock(lock, LOCK_SH | LOCK_NB) != 0;
    if (lock >= 0)
      ::close(lock);
    return there;
  }

 private:
  std::string path_;
  pid_t pid_ = 0;
};

// The network, IPC and host name of the sandbox: runc joins those namespaces only that a container's configuration
// names, and these are nobody's but the keeper's.
bool enter_spaces(const std::string& sandbox) {
  const KeeperProcess keeper(sandbox);
  std::vector<int> spaces;
  for (const char* name : {"net", "ipc", "uts"})
    spaces.push_back(::open(format("/proc/{}/ns/{}", keeper.pid(), name).c_str(), O_RDONLY | O_CLOEXEC));
  return keeper.is_there() &&
         std::all_of(spaces.begin(), spaces.end(), [](int space) { return space >= 0 && ::setns(space, 0) == 0; });
}

// Between a stream of frames and the ends of a program. What either side does not take is not read from the other.
class ProgramPump {
 public:
  int to = -1;             // the program's input; -1 = it has none
  int from[2] = {-1, -1};  // what it writes
  int terminal = -1;       // both, where it has one
  bool input_is_wanted = false;

  // Until the program has closed its outputs. Where nobody hears it any more it is still read, so that it never waits
  // for a reader; false: so it was.
  bool run() {
    for (const int fd : {to, from[0], from[1], kStreamIn})
      if (fd >= 0)
        ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    while (from[0] >= 0 || from[1] >= 0) {
      std::vector<pollfd> waits;
      const bool takes = out_.size() < kHeldMax;
      for (const int fd : from) waits.push_back({takes ? fd : -1, POLLIN, 0});
      waits.push_back({to >= 0 && !in_.empty() ? to : -1, POLLOUT, 0});
      waits.push_back(
          {heard_ ? kStreamIn : -1, static_cast<short>(in_.size() < kHeldMax && !stream_ended_ ? POLLIN : 0), 0});
      waits.push_back({out_.empty() ? -1 : kStreamOut, POLLOUT, 0});
      ::poll(waits.data(), waits.size(), -1);
      read_program();
      if (heard_ && (!read_stream(waits[3].revents) || !write_stream()))
        lose_stream();
      if (!heard_)
        out_.clear();
      write_program();
    }
    if (!heard_)
      return false;
    ::fcntl(kStreamIn, F_SETFL, ::fcntl(kStreamIn, F_GETFL) & ~O_NONBLOCK);
    send_all(out_);
    return true;
  }

 private:
  // A terminal stays open: to close it would end what runs there.
  void lose_stream() {
    heard_ = false;
    in_.clear();
    input_ended_ = false;
    if (to >= 0 && to != terminal)
      close_input();
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {kStreamIn, kStreamOut}) ::dup2(null, fd);
    ::close(null);
  }

  void read_program() {
    for (const int i : {0, 1}) {
      char chunk[16 << 10];
      while (from[i] >= 0 && out_.size() < kHeldMax) {
        const ssize_t n = ::read(from[i], chunk, sizeof chunk);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
          break;
        if (n <= 0) {
          if (from[i] != terminal)
            ::close(from[i]);
          from[i] = -1;
          break;
        }
        append_container_frame(out_, i == 0 ? ContainerChannel::kOutput : ContainerChannel::kError,
                               {chunk, static_cast<std::size_t>(n)});
      }
    }
  }

  bool read_stream(short events) {
    if ((events & (POLLERR | POLLHUP)) != 0 && (events & POLLIN) == 0)
      return false;
    char chunk[16 << 10];
    while (!stream_ended_ && in_.size() < kHeldMax) {
      const ssize_t n = ::read(kStreamIn, chunk, sizeof chunk);
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
      if (n < 0)
        return false;
      if (n == 0) {  // who asked listens still, or is gone: a write tells
        stream_ended_ = input_ended_ = true;
        return true;
      }
      const bool good =
          reader_.feed({chunk, static_cast<std::size_t>(n)}, [this](ContainerChannel channel, std::string_view bytes) {
            if (channel == ContainerChannel::kInput && bytes.empty())
              input_ended_ = true;
            else if (channel == ContainerChannel::kInput && input_is_wanted)
              in_.append(bytes);
            else if (channel == ContainerChannel::kSize && terminal >= 0)
              set_size(terminal, bytes);
          });
      if (!good)
        return false;
    }
    return true;
  }

  bool write_stream() {
    while (!out_.empty()) {
      const ssize_t n = ::write(kStreamOut, out_.data(), out_.size());
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
      if (n <= 0)
        return false;
      out_.erase(0, static_cast<std::size_t>(n));
    }
    return true;
  }

  void write_program() {
    while (to >= 0 && !in_.empty()) {
      const ssize_t n = ::write(to, in_.data(), in_.size());
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      if (n <= 0) {
        close_input();
        in_.clear();
        return;
      }
      in_.erase(0, static_cast<std::size_t>(n));
    }
    if (to < 0)
      in_.clear();
    if (input_ended_ && in_.empty() && to >= 0) {
      if (to == terminal)
        in_.push_back('\x04');
      else
        close_input();
      input_ended_ = false;
    }
  }

  void close_input() {
    if (to != terminal)
      ::close(to);
    to = -1;
  }

  ContainerFrameReader reader_;
  std::string in_, out_;
  bool heard_ = true, stream_ended_ = false, input_ended_ = false;
};

// --- a program beside the container's own ---

Result<std::string> write_process(const Target& target, const ContainerAsk& ask) {
  std::string text = TRY(read_plain(format("{}/{}", target.folder, kProcessFile), Links::kRefused, kProcessMax));
  JsonText rest;
  rest.object().field("terminal", ask.terminal).key("args").array();
  for (const std::string& word : ask.argv) rest.value(word);
  rest.end().end();
  text += "," + rest.take().substr(1);
  const int fd = ::memfd_create("process", 0);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return os_error("cannot keep what is to run");
  return format("/proc/{}/fd/{}", ::getpid(), fd);
}

std::string error_in(const std::string& log) {
  const auto text = read_plain(log, Links::kRefused, 1 << 20);
  if (!text.ok())
    return {};
  constexpr std::string_view kKey = "\"msg\":\"";
  const auto at = text->rfind(kKey);
  std::string out;
  for (std::size_t i = at == text->npos ? text->size() : at + kKey.size(); i < text->size() && (*text)[i] != '"'; ++i)
    out.push_back((*text)[i] == '\\' && i + 1 < text->size() ? (*text)[++i] : (*text)[i]);
  return out;
}

// The ends of a program that the runtime hands to it. Of one with a terminal the runtime has none.
struct Ends {
  int theirs[3] = {-1, -1, -1};
  int console = -1;  // where the runtime brings the terminal that it makes
};

[[noreturn]] void become_runtime(const std::vector<std::string>& words, const Ends& ends) {
  reset_signals();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int i : {0, 1, 2}) ::dup2(ends.theirs[i] >= 0 ? ends.theirs[i] : null, i);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  close_on_exec_from(3);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* env[] = {path, nullptr};
  ::execve(argv[0], argv.data(), env);
  ::_exit(127);
}

Result<void> open_ends(const ContainerAsk& ask, const std::string& console, Ends& ends, ProgramPump& pump) {
  pump.input_is_wanted = ask.input;
  if (ask.terminal) {
    ends.console = listen_on_socket(console);
    return ends.console >= 0 ? Result<void>() : Result<void>(os_error("cannot wait for a terminal"));
  }
  int in[2], out[2], err[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0)
    return os_error("pipe");
  ends.theirs[0] = in[0];
  ends.theirs[1] = out[1];
  ends.theirs[2] = err[1];
  pump.to = in[1];
  pump.from[0] = out[0];
  pump.from[1] = err[0];
  if (!ask.input) {
    ::close(in[1]);
    pump.to = -1;
  }
  return {};
}

// What has ended of those who are ours to wait for: the runtime, the program when the runtime has let go of it, and
// whoever is left without a parent. What nobody takes holds up the end of the container that it ran in.
class Children {
 public:
  int wait_for(pid_t pid) {
    for (;;) {
      if (const auto it = ends_.find(pid); it != ends_.end())
        return it->second;
      int status = 0;
      const pid_t dead = ::waitpid(-1, &status, 0);
      if (dead > 0)
        ends_[dead] = status;
      else if (errno != EINTR)
        return W_EXITCODE(1, 0);
    }
  }
  static void wait_for_all() {
    while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {}
  }

 private:
  std::map<pid_t, int> ends_;
};

int serve_exec(const Target& target, const ContainerAsk& ask) {
  if (ask.argv.empty())
    return end_with("error there is no program to run");
  if (!enter_spaces(target.sandbox))
    return end_with("error container not found: its pod has ended");
  const std::string files = format("{}/exec.{}", target.folder, ::getpid());
  const std::string log = files + ".log", pid_file = files + ".pid", console = format("exec.{}.tty", ::getpid());
  const auto process = write_process(target, ask);
  if (!process.ok() || ::chdir(target.folder.c_str()) != 0)
    return end_with("error container not found: it does not run");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // the runtime ends when the program has begun
  Ends ends;
  ProgramPump pump;
  if (const auto opened = open_ends(ask, console, ends, pump); !opened.ok())
    return end_with("error " + opened.error().message);
  std::vector<std::string> words = {runtime_path(), "--root",   runtime_records(target.sandbox),
                                    "--log",        log,        "--log-format",
                                    "json",         "exec",     "--process",
                                    *process,       "--detach", "--pid-file",
                                    pid_file};
  if (ask.terminal)
    words.insert(words.end(), {"--tty", "--console-socket", console});
  words.push_back(runtime_id(target.container, target.life));
  const pid_t runtime = ::fork();
  if (runtime == 0)
    become_runtime(words, ends);
  for (int& end : ends.theirs)
    if (end >= 0)
      ::close(std::exchange(end, -1));
  Children children;
  int status = runtime < 0 ? W_EXITCODE(1, 0) : children.wait_for(runtime);
  const auto text = read_plain(pid_file, Links::kRefused, 64);
  const auto program = text.ok() ? parse_uint(trim(*text)) : std::nullopt;
  const bool runs = status == 0 && program && *program > 0 && *program <= INT32_MAX;
  if (ask.terminal)
    pump.terminal = pump.from[0] = pump.to = runs ? take_terminal(ends.console) : -1;
  const std::string why = error_in(log);
  for (const std::string& file : {log, pid_file, console}) ::unlink(file.c_str());
  const bool heard = pump.run();
  if (runs)
    status = children.wait_for(static_cast<pid_t>(*program));
  if (!heard) {
    Children::wait_for_all();
    return 1;
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (!runs)
    return end_with(format("error command terminated with exit code {}: {}", code == 0 ? 255 : code, why));
  return end_with(code == 0 ? std::string() : format("exit {}", code));
}

// --- the container's own input and output ---

int connect_in(const std::string& folder, const char* name) {
  if (::chdir(folder.c_str()) != 0)
    return -1;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  ::strncpy(at.sun_path, name, sizeof at.sun_path - 1);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0)
    return fd;
  if (fd >= 0)
    ::close(fd);
  return -1;
}

// Bytes both ways, until both have ended or one side is gone. taken: looks at what goes to `there`, and from it.
template <class ToThere, class FromThere>
void pump_bytes(int there, ToThere to_there, FromThere from_there) {
  struct Way {
    int from, to;
    std::string held;
    bool ended = false, closed = false;
  };
  Way ways[2] = {{kStreamIn, there, {}}, {there, kStreamOut, {}}};
  ::fcntl(there, F_SETFL, ::fcntl(there, F_GETFL) | O_NONBLOCK);
  ::fcntl(kStreamIn, F_SETFL, ::fcntl(kStreamIn, F_GETFL) | O_NONBLOCK);
  for (;;) {
    std::vector<pollfd> waits;
    for (const Way& way : ways) {
      waits.push_back({way.ended || way.held.size() >= kHeldMax ? -1 : way.from, POLLIN, 0});
      waits.push_back({way.held.empty() ? -1 : way.to, POLLOUT, 0});
    }
    ::poll(waits.data(), waits.size(), -1);
    for (int i : {0, 1}) {
      Way& way = ways[i];
      char chunk[32 << 10];
      if (!way.ended && way.held.size() < kHeldMax) {
        const ssize_t n = ::read(way.from, chunk, sizeof chunk);
        if (n > 0 && !(i == 0 ? to_there(std::string_view(chunk, static_cast<std::size_t>(n)), way.held)
                              : from_there(std::string_view(chunk, static_cast<std::size_t>(n)), way.held)))
          return;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
          way.ended = true;
      }
      while (!way.held.empty()) {
        const ssize_t n = ::write(way.to, way.held.data(), way.held.size());
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
          break;
        if (n <= 0 && i == 1)
          return;      // nobody hears what comes from there
        if (n <= 0) {  // nobody reads there: what was said before that is still to come
          way.held.clear();
          way.ended = way.closed = true;
          break;
        }
        way.held.erase(0, static_cast<std::size_t>(n));
      }
      if (way.ended && way.held.empty() && !way.closed) {
        way.closed = true;
        ::shutdown(way.to, SHUT_WR);
      }
    }
    if (ways[1].closed || (ways[0].closed && ways[1].ended))
      return;
  }
}

int serve_attach(const Target& target, const ContainerAsk& ask) {
  const int fd = connect_in(container_folder(target.sandbox, target.container), "attach");
  if (fd < 0)
    return end_with("error the container does not run");
  ContainerFrameReader input, output;
  bool input_ended = false;
  pump_bytes(
      fd,
      [&](std::string_view bytes, std::string& out) {
        return input.feed(bytes, [&](ContainerChannel channel, std::string_view frame) {
          if ((channel == ContainerChannel::kInput && ask.input) || channel == ContainerChannel::kSize)
            append_container_frame(out, channel, frame);
          input_ended = input_ended || (channel == ContainerChannel::kInput && frame.empty());
        });
      },
      [&](std::string_view bytes, std::string& out) {
        return output.feed(bytes, [&](ContainerChannel channel, std::string_view frame) {
          if ((channel == ContainerChannel::kOutput && ask.output) ||
              (channel == ContainerChannel::kError && ask.error) || channel == ContainerChannel::kEnd)
            append_container_frame(out, channel, frame);
        });
      });
  // Who had it open has gone.
  if (ask.input && !input_ended) {
    std::string end;
    append_container_frame(end, ContainerChannel::kInput, {});
    [[maybe_unused]] const ssize_t n = ::send(fd, end.data(), end.size(), MSG_NOSIGNAL);
  }
  ::close(fd);
  return 0;
}

// --- a port of the sandbox ---

int tell_keeper(const Target& target) {
  const KeeperProcess keeper(target.sandbox);
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, keeper.pid(), 0));
  return process >= 0 && keeper.is_there() && ::syscall(SYS_pidfd_send_signal, process, kLookSignal, nullptr, 0) == 0
             ? 0
             : 1;
}

// -1: nobody listens there.
int connect_to(const sockaddr* address, socklen_t size) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && ::connect(fd, address, size) == 0)
    return fd;
  if (fd >= 0)
    ::close(fd);
  return -1;
}

// Where the sandbox itself would look, and what listens on its address alone.
int connect_inside(std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = connect_to(reinterpret_cast<const sockaddr*>(&to), sizeof to);
  sockaddr_in6 to6{};
  to6.sin6_family = AF_INET6;
  to6.sin6_port = htons(port);
  to6.sin6_addr = in6addr_loopback;
  if (fd < 0)
    fd = connect_to(reinterpret_cast<const sockaddr*>(&to6), sizeof to6);
  ifaddrs* all = nullptr;
  if (fd >= 0 || ::getifaddrs(&all) != 0)
    return fd;
  for (const ifaddrs* one = all; one && fd < 0; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    ::memcpy(&to, one->ifa_addr, sizeof to);
    to.sin_port = htons(port);
    fd = connect_to(reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  ::freeifaddrs(all);
  return fd;
}

int serve_port(const Target& target, const ContainerAsk& ask) {
  const int fd = enter_spaces(target.sandbox) ? connect_inside(ask.port) : -1;
  if (fd < 0)
    return 1;
  if (ask.input)
    send_all(std::string_view("\0", 1));
  const auto pass = [](std::string_view bytes, std::string& out) {
    out.append(bytes);
    return true;
  };
  pump_bytes(fd, pass, pass);
  return 0;
}

}  // namespace

void become_resize(const std::string& sandbox, const SandboxContainer& container, std::uint32_t life) {
  constexpr std::uint64_t kPeriod = 100'000, kSharesOfCore = 1024, kSharesLeast = 2;
  std::vector<std::string> words = {runtime_path(), "--root", runtime_records(sandbox), "update"};
  const auto say = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
  say("--cpu-period", std::to_string(kPeriod));
  say("--cpu-quota", container.milli_cores > 0
                         ? std::to_string(std::max<std::uint64_t>(1000, container.milli_cores * kPeriod / 1000))
                         : "-1");
  if (container.cpu_weight > 0)
    say("--cpu-share", std::to_string(std::max(kSharesLeast, container.cpu_weight * kSharesOfCore / 1000)));
  const std::string memory = container.memory_bytes > 0 ? std::to_string(container.memory_bytes) : "-1";
  say("--memory", memory);
  say("--memory-swap", memory);
  words.push_back(runtime_id(container.name, life));
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1, 2}) ::dup2(null, fd);
  close_on_exec_from(3);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* env[] = {path, nullptr};
  ::execve(pointers[0], pointers.data(), env);
  ::_exit(127);
}

void become_beside(const std::string& sandbox, const std::string& container, std::uint32_t life,
                   const std::vector<std::string>& argv) {
  ContainerAsk ask;
  ask.argv = argv;
  const Target target{sandbox, container, life_folder(sandbox, container, life), life};
  const auto process = write_process(target, ask);
  if (!process.ok())
    return;
  std::vector<std::string> words = {runtime_path(), "--root", runtime_records(sandbox),   "exec",
                                    "--process",    *process, runtime_id(container, life)};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* env[] = {path, nullptr};
  ::execve(pointers[0], pointers.data(), env);
}

int run_reach(const char* home) {
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_NAME, "reach");
  const auto asked = decode_container_ask(read_ask());
  if (!asked.ok())
    return 2;
  const ContainerAsk& ask = asked->ask;
  using What = ContainerAsk::What;
  const auto target = find_target(home, *asked);
  if (!target.ok()) {
    if (ask.what == What::kExec || ask.what == What::kAttach)
      return end_with("error container not found: " + target.error().message);
    return 1;
  }
  switch (ask.what) {
    case What::kLogs: {
      const std::string folder = ask.previous ? previous_folder(*target) : target->folder;
      if (!folder.empty())
        send_log(kStreamOut, folder, ask);
      return 0;
    }
    case What::kExec: return serve_exec(*target, ask);
    case What::kAttach: return serve_attach(*target, ask);
    case What::kPort: return serve_port(*target, ask);
    case What::kLook: return tell_keeper(*target);
  }
  return 2;
}

}  // namespace lockstep
