#include "shim/container_parent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <optional>
#include <vector>

#include "base/plain_file.h"
#include "base/text.h"
#include "shim/console_socket.h"
#include "shim/container_frames.h"
#include "shim/container_log.h"
#include "shim/control_group.h"
#include "shim/process_tree.h"
#include "shim/task_inheritance.h"
#include "wire/container_word.h"
#include "wire/sandbox_paths.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

constexpr const char* kRuntimeFolders[] = {"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"};
constexpr const char* kRuntimePath = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
constexpr std::size_t kMessageMax = 4096, kTailLines = 80, kTailBytes = 2048;
constexpr std::size_t kClientsMax = 16, kBehindMax = 1 << 20, kInputHeld = 256 << 10, kWordMax = 64 << 10;
constexpr int kFailedToStart = 128;

void close_end(int& fd) {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

Result<void> put_file(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return os_error(path);
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return whole ? Result<void>() : Result<void>(os_error(path));
}

// The error that runc's log names last: lines of JSON, each with a "msg".
std::string said_in(const std::string& path) {
  const auto text = read_plain(path, Links::kRefused, 1 << 20);
  std::string out;
  if (!text.ok())
    return out;
  for (const std::string& line : split(*text, '\n')) {
    constexpr std::string_view kKey = "\"msg\":\"";
    const auto at = line.find(kKey);
    if (at == line.npos || line.find("\"level\":\"error\"") == line.npos)
      continue;
    out.clear();
    for (std::size_t i = at + kKey.size(); i < line.size() && line[i] != '"'; ++i)
      if (line[i] == '\\' && i + 1 < line.size())
        out.push_back(line[++i] == 'n' ? ' ' : line[i]);
      else
        out.push_back(line[i]);
  }
  return out;
}

[[noreturn]] void end_like(int status) {
  if (WIFEXITED(status))
    ::_exit(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  reset_signals();
  ::signal(signal, SIG_DFL);
  ::kill(::getpid(), signal);
  ::_exit(128 + signal);
}

// Who has attached: everything that the container writes goes there, as far as it is read.
struct Client {
  int fd = -1;
  ContainerFrameReader reader;
  std::string unsent;
  bool leaves = false;  // its input has ended, and the container's stays open: that was all
  bool gone = false;
};

class Parent {
 public:
  Parent(const ContainedLife& life, int tell)
      : life_(life),
        one_(life.sandbox.containers[life.container]),
        room_(life.room),
        tell_(tell),
        container_folder_(container_folder(room_.folder, one_.name)),
        folder_(life_folder(room_.folder, one_.name, life.life)),
        id_(runtime_id(one_.name, life.life)),
        group_(room_.group.empty() ? std::string() : format("{}/{}", room_.group, id_)) {}

  [[noreturn]] void run() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_NAME, "container");
    sigset_t watched;
    ::sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGTERM, SIGUSR1}) ::sigaddset(&watched, signal);
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    signals_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (const auto ready = get_ready(); !ready.ok())
      fail(ContainerWord::What::kCannotYet, "CreateContainerError", ready.error().message);
    bundle();
    open_streams();
    create();
    serve();
    end();
  }

 private:
  void tell(const ContainerWord& word) const {
    const std::string line = encode_container_word(word) + "\n";
    [[maybe_unused]] const ssize_t n = ::write(tell_, line.data(), line.size());
  }

  [[noreturn]] void fail(ContainerWord::What what, std::string reason, std::string message) {
    ContainerWord word;
    word.what = what;
    word.reason = std::move(reason);
    word.message = as_phrase(message);
    tell(word);
    signal_descendants(::getpid(), SIGKILL);
    ::_exit(kFailedToStart);
  }

  Result<void> get_ready() {
    for (const std::string& path : {container_folder_, folder_})
      if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return os_error(path);
    if (::chdir(container_folder_.c_str()) != 0)
      return os_error(container_folder_);
    Sandbox only = life_.sandbox;
    only.containers = {one_};
    TRY(put_file(folder_ + "/spec", encode_sandbox(only)));
    alive_ = ::open((folder_ + "/alive").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (alive_ < 0 || ::flock(alive_, LOCK_EX | LOCK_NB) != 0)
      return os_error(folder_ + "/alive");
    if (life_.std_out.empty())
      log_.emplace(TRY(ContainerLog::open(format("{}/{}", folder_, kLogFile), place_of_shown_log())));
    return put_file(container_folder_ + "/life", format("{}\n", life_.life));
  }

  // "" = it is shown nowhere. Its names are those of a Kubernetes node, which who collects logs takes apart.
  std::string place_of_shown_log() const {
    const std::string logs = shown_logs(room_.home), pod = format("{}/pods/{}", logs, life_.log_folder);
    const std::string folder = format("{}/{}", pod, one_.name), rest = format("{}/{}.log", one_.name, life_.life);
    if (life_.log_folder.empty() || life_.log_folder.find('/') != std::string::npos || life_.log_folder[0] == '.')
      return {};
    for (const std::string& path : {pod, folder})
      if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
        return {};  // its agent has made no place for logs
    const auto parts = split(life_.log_folder, '_');
    if (parts.size() == 3) {
      const std::string name = format("{}_{}_{}-{}.log", parts[1], parts[0], one_.name, id_of_64_digits());
      const std::string link = format("{}/containers/{}", logs, name);
      ::unlink(link.c_str());
      (void)!::symlink(format("{}/{}/{}", kPodLogs, life_.log_folder, rest).c_str(), link.c_str());
    }
    return format("{}/{}", pod, rest);
  }
  static std::string id_of_64_digits() {
    std::string out;
    for (int part = 0; part < 2; ++part) {
      const auto uuid = read_plain("/proc/sys/kernel/random/uuid", Links::kRefused, 64);
      for (const char c : uuid.ok() ? *uuid : std::string())
        if (c != '-' && c != '\n')
          out.push_back(c);
    }
    return out;
  }

  // --- processes ---

  struct Words {
    std::vector<std::string> argv;
    std::vector<std::string> env;     // empty: ours
    int in = -1, out = -1, err = -1;  // -1 = nothing
  };
  pid_t start(const Words& words) const {
    std::vector<char*> argv, env;
    for (const std::string& word : words.argv) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& line : words.env) env.push_back(const_cast<char*>(line.c_str()));
    argv.push_back(nullptr);
    env.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0)
      return pid;
    reset_signals();
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(words.in >= 0 ? words.in : null, 0);
    ::dup2(words.out >= 0 ? words.out : null, 1);
    ::dup2(words.err >= 0 ? words.err : null, 2);
    close_on_exec_from(3);
    if (words.env.empty())
      ::execv(argv[0], argv.data());
    else
      ::execve(argv[0], argv.data(), env.data());
    ::_exit(127);
  }

  // Reaps whoever has ended; what we are told meanwhile is done.
  void hear() {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGTERM)
        pass_on(SIGTERM);
      else if (info.ssi_signo == SIGUSR1)
        pass_on(SIGKILL);
    }
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
      if (pid == first_)
        ended_ = status;
      else if (pid == awaited_)
        awaited_status_ = status;
  }

  void pass_on(int signal) {
    called_off_ = called_off_ || first_ == 0;
    if (first_ > 0 && !ended_)
      ::kill(first_, signal == SIGTERM ? stop_signal_ : signal);
    else if (first_ == 0)
      signal_descendants(::getpid(), signal);
    // Of a container that shares its processes the first one takes none with it.
    if (signal == SIGKILL && first_ > 0 && (!room_.process_space.empty() || life_.sandbox.node_processes))
      (void)start(
          {{runtime_path(), "--root", runtime_records(room_.folder), "kill", "--all", id_, "KILL"}, {kRuntimePath}});
  }

  int wait_for(pid_t pid, std::vector<pollfd> also = {}) {
    awaited_ = pid;
    awaited_status_.reset();
    while (!awaited_status_) {
      std::vector<pollfd> waits = {{signals_, POLLIN, 0}};
      waits.insert(waits.end(), also.begin(), also.end());
      ::poll(waits.data(), waits.size(), -1);
      for (std::size_t i = 1; i < waits.size(); ++i)
        if ((waits[i].revents & POLLIN) != 0)
          heard_on(waits[i].fd);
        else if (waits[i].revents != 0)
          also[i - 1].fd = -1;  // its other end is closed
      hear();
    }
    awaited_ = 0;
    return *awaited_status_;
  }

  // --- the container ---

  void bundle() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      fail(ContainerWord::What::kCannotYet, "CreateContainerError", "pipe");
    const std::string group = group_.empty() ? "-" : group_;
    const std::string space = room_.process_space.empty() ? "-" : room_.process_space;
    // On no disk, and in no environment that could be read.
    const int logins = life_.logins.empty() ? -1 : ::memfd_create("logins", MFD_CLOEXEC);
    if (logins >= 0 && (::write(logins, life_.logins.data(), life_.logins.size()) < 0 || ::lseek(logins, 0, SEEK_SET)))
      fail(ContainerWord::What::kCannotYet, "CreateContainerError", "logins cannot be handed on");
    const pid_t pid =
        start({{room_.program, "bundle", room_.home, room_.folder, folder_, group, space}, {}, logins, ends[1], 2});
    ::close(ends[1]);
    if (logins >= 0)
      ::close(logins);
    told_ = ends[0];
    wait_for(pid, {{told_, POLLIN, 0}});
    const std::string line = std::exchange(told_line_, {});
    close_end(told_);
    const auto word = decode_container_word(trim(line));
    if (!word.ok())
      fail(ContainerWord::What::kCannotYet, "CreateContainerError", "what it needs could not be made ready");
    tell(*word);
    if (word->what != ContainerWord::What::kImage)
      ::_exit(kFailedToStart);
    if (word->stop_signal > 0 && word->stop_signal < NSIG)
      stop_signal_ = word->stop_signal;
  }

  int open_file_for(const std::string& path) const {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
  }

  void open_streams() {
    if (one_.terminal) {
      console_ = listen_on_socket("console");
    } else {
      int out[2], err[2];
      if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0)
        fail(ContainerWord::What::kCannotYet, "CreateContainerError", "pipe");
      from_[0] = out[0];
      theirs_[1] = out[1];
      from_[1] = err[0];
      theirs_[2] = err[1];
      if (!life_.std_out.empty()) {
        files_[0] = open_file_for(life_.std_out);
        files_[1] = life_.std_err.empty() ? files_[0] : open_file_for(life_.std_err);
      }
      int in[2];
      if (one_.keeps_input && ::pipe2(in, O_CLOEXEC) == 0) {
        theirs_[0] = in[0];
        to_ = in[1];
        ::fcntl(to_, F_SETFL, O_NONBLOCK);
      }
      for (const int fd : from_) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    listen_for_clients();
  }

  // In our working directory, since a socket's path may not be long.
  void listen_for_clients() { attach_ = listen_on_socket("attach"); }

  void take_console() {
    if (const int terminal = take_terminal(console_); terminal >= 0)
      from_[0] = to_ = terminal;
  }

  void heard_on(int fd) {
    char chunk[4096];
    if (fd == console_)
      take_console();
    else if (const ssize_t n = fd == told_ ? ::read(told_, chunk, sizeof chunk) : 0;
             n > 0 && told_line_.size() < kWordMax) {
      told_line_.append(chunk, static_cast<std::size_t>(n));
      pass_words();
    }
  }

  // What comes before the last word is told as it comes.
  void pass_words() {
    for (std::size_t end; (end = told_line_.find('\n')) != told_line_.npos;) {
      const auto word = decode_container_word(trim(told_line_.substr(0, end)));
      if (!word.ok() || word->what != ContainerWord::What::kFetching)
        return;
      tell(*word);
      told_line_.erase(0, end + 1);
    }
  }

  void create() {
    const std::string runtime = runtime_path(), log = folder_ + "/runtime.log", pid_file = folder_ + "/pid";
    if (runtime.empty())
      fail(ContainerWord::What::kCannotYet, "CreateContainerError",
           "runc is not installed on this node: its package is runc");
    ::unlink(pid_file.c_str());
    ::unlink(log.c_str());
    const std::vector<std::string> common = {runtime,        "--root", runtime_records(room_.folder), "--log", log,
                                             "--log-format", "json"};
    Words words{common, {kRuntimePath}, theirs_[0], theirs_[1], theirs_[2]};
    words.argv.insert(words.argv.end(), {"create", "--bundle", folder_, "--pid-file", pid_file});
    if (console_ >= 0)
      words.argv.insert(words.argv.end(), {"--console-socket", "../console"});
    words.argv.push_back(id_);
    const pid_t maker = start(words);
    for (int& fd : theirs_) close_end(fd);
    const int made =
        wait_for(maker, console_ >= 0 ? std::vector<pollfd>{{console_, POLLIN, 0}} : std::vector<pollfd>{});
    const auto pid = read_plain(pid_file, Links::kRefused, 64);
    const auto number = pid.ok() ? parse_uint(trim(*pid)) : std::nullopt;
    if (made != 0 || !number || *number == 0)
      fail_to_start(log);
    if (console_ >= 0)
      take_console();
    first_ = static_cast<pid_t>(*number);
    Words begin{common, {kRuntimePath}};
    begin.argv.insert(begin.argv.end(), {"start", id_});
    if (wait_for(start(begin)) != 0 && !ended_)
      fail_to_start(log);
    ContainerWord word;
    word.what = ContainerWord::What::kBegan;
    word.pid = first_;
    tell(word);
  }

  [[noreturn]] void fail_to_start(const std::string& log) {
    std::string why = said_in(log);
    remove_container();
    leave_files();
    if (called_off_) {  // it was stopped while it was made: that is how it ended, and no fault of its own
      ContainerWord word;
      word.what = ContainerWord::What::kEnded;
      tell(word);
      signal_descendants(::getpid(), SIGKILL);
      end_like(SIGKILL);
    }
    fail(ContainerWord::What::kFailed, "StartError", why.empty() ? "runc could not start it, and says no more" : why);
  }

  void remove_container() {
    wait_for(
        start({{runtime_path(), "--root", runtime_records(room_.folder), "delete", "--force", id_}, {kRuntimePath}}));
  }

  // --- while it runs ---

  void serve() {
    while (!ended_) {
      std::vector<pollfd> waits = {{signals_, POLLIN, 0}};
      for (const int fd : from_)
        if (fd >= 0)
          waits.push_back({fd, POLLIN, 0});
      if (attach_ >= 0)
        waits.push_back({attach_, POLLIN, 0});
      if (to_ >= 0 && !input_.empty())
        waits.push_back({to_, POLLOUT, 0});
      for (const Client& client : clients_) {
        const short reads = input_.size() < kInputHeld ? POLLIN : 0;
        waits.push_back({client.fd, static_cast<short>(client.unsent.empty() ? reads : reads | POLLOUT), 0});
      }
      ::poll(waits.data(), waits.size(), -1);
      hear();
      read_output();
      write_input();
      if (attach_ >= 0)
        take_clients();
      for (Client& client : clients_) serve_client(client);
      drop_clients();
    }
  }

  void read_output() {
    for (const int i : {0, 1})
      for (int rounds = 0; from_[i] >= 0 && rounds < 16; ++rounds) {
        char chunk[16 << 10];
        const ssize_t n = ::read(from_[i], chunk, sizeof chunk);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
          break;
        if (n <= 0) {  // a terminal that nobody has open any more is an error
          if (to_ == from_[i])
            to_ = -1;
          close_end(from_[i]);
          break;
        }
        wrote(i, {chunk, static_cast<std::size_t>(n)});
      }
  }

  void wrote(int which, std::string_view bytes) {
    if (log_)
      log_->take(which == 0 ? ContainerLog::Stream::kOutput : ContainerLog::Stream::kError, bytes);
    else if (files_[which] >= 0 && ::write(files_[which], bytes.data(), bytes.size()) < 0)
      close_end(files_[which]);
    for (Client& client : clients_) {
      append_container_frame(client.unsent, which == 0 ? ContainerChannel::kOutput : ContainerChannel::kError, bytes);
      client.gone = client.gone || client.unsent.size() > kBehindMax;
      flush(client);
    }
  }

  static void flush(Client& client) {
    while (!client.unsent.empty() && !client.gone) {
      const ssize_t n = ::send(client.fd, client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      if (n <= 0)
        client.gone = true;
      else
        client.unsent.erase(0, static_cast<std::size_t>(n));
    }
  }

  void take_clients() {
    for (int fd; (fd = ::accept4(attach_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
      if (clients_.size() >= kClientsMax) {
        ::close(fd);
        continue;
      }
      clients_.emplace_back();
      clients_.back().fd = fd;
    }
  }

  void serve_client(Client& client) {
    flush(client);
    char chunk[16 << 10];
    while (!client.gone && input_.size() < kInputHeld) {
      const ssize_t n = ::recv(client.fd, chunk, sizeof chunk, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      client.gone = n <= 0 || !client.reader.feed({chunk, static_cast<std::size_t>(n)},
                                                  [&](ContainerChannel channel, std::string_view bytes) {
                                                    take_frame(client, channel, bytes);
                                                  });
    }
  }

  void take_frame(Client& client, ContainerChannel channel, std::string_view bytes) {
    if (channel == ContainerChannel::kInput && !bytes.empty() && to_ >= 0) {
      input_.append(bytes);
    } else if (channel == ContainerChannel::kInput && bytes.empty()) {
      input_ends_ = input_ends_ || one_.input_ends_once;
      client.leaves = client.leaves || !one_.input_ends_once;
    } else if (channel == ContainerChannel::kSize && one_.terminal && to_ >= 0) {
      const auto words = split_words(bytes);
      const auto columns = words.size() == 2 ? parse_uint(words[0]) : std::nullopt;
      const auto rows = words.size() == 2 ? parse_uint(words[1]) : std::nullopt;
      if (!columns || !rows || *columns > UINT16_MAX || *rows > UINT16_MAX)
        return;
      winsize size{};
      size.ws_col = static_cast<unsigned short>(*columns);
      size.ws_row = static_cast<unsigned short>(*rows);
      ::ioctl(to_, TIOCSWINSZ, &size);
    }
    write_input();
  }

  void write_input() {
    while (to_ >= 0 && !input_.empty()) {
      const ssize_t n = ::write(to_, input_.data(), input_.size());
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      if (n <= 0) {
        input_.clear();
        if (to_ != from_[0])
          close_end(to_);
        return;
      }
      input_.erase(0, static_cast<std::size_t>(n));
    }
    if (!input_ends_ || !input_.empty() || to_ < 0)
      return;
    if (to_ != from_[0])
      close_end(to_);
    else
      input_.push_back('\x04');  // of a terminal, what ^D is
    input_ends_ = false;
  }

  void drop_clients() {
    for (Client& client : clients_)
      if (client.leaves && input_.empty()) {
        client.leaves = false;
        append_container_frame(client.unsent, ContainerChannel::kEnd, {});
        flush(client);
      }
    for (auto it = clients_.begin(); it != clients_.end();)
      if (it->gone) {
        ::close(it->fd);
        it = clients_.erase(it);
      } else {
        ++it;
      }
  }

  // --- after ---

  std::string message() const {
    std::string text;
    if (!one_.message_file.empty())
      if (const auto fd = open_plain(folder_ + "/message", O_RDONLY | O_CLOEXEC); fd.ok()) {
        text.resize(kMessageMax);
        const ssize_t n = ::read(*fd, text.data(), text.size());
        text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
        ::close(*fd);
      }
    const bool failed = !WIFEXITED(*ended_) || WEXITSTATUS(*ended_) != 0;
    if (text.empty() && one_.message_from_log && failed && log_)
      text = log_tail(format("{}/{}", folder_, kLogFile), kTailLines, kTailBytes);
    return text;
  }

  // What it changed goes: to remove many files takes longer than its end may. Its log and that of the life before stay.
  void leave_files() const {
    for (int number = 0;; ++number) {
      const std::string source = format("{}/sources/{}", folder_, number);
      struct stat stat {};
      if (::lstat(source.c_str(), &stat) != 0)
        break;
      while (::umount2(source.c_str(), MNT_DETACH) == 0) {}
    }
    while (::umount2((folder_ + "/rootfs").c_str(), MNT_DETACH) == 0) {}
    for (const char* part : {"upper", "work", "rootfs", "sources"})
      put_aside(room_, format("{}/{}", folder_, part), format("{}+{}.{}", room_.work, id_, part));
    if (life_.life >= 2)
      put_aside(room_, life_folder(room_.folder, one_.name, life_.life - 2),
                format("{}+{}.{}", room_.work, one_.name, life_.life - 2));
  }

  [[noreturn]] void end() {
    read_output();
    const std::uint64_t oom = group_.empty() ? 0 : oom_kills_in(group_);
    remove_container();
    for (int& fd : from_)
      if (fd >= 0)
        ::fcntl(fd, F_SETFL, O_NONBLOCK);
    read_output();
    if (log_)
      log_->end();
    ContainerWord word;
    word.what = ContainerWord::What::kEnded;
    word.oom = oom > 0;
    word.message = as_phrase(message(), kMessageMax);
    for (Client& client : clients_) {
      append_container_frame(client.unsent, ContainerChannel::kEnd,
                             WIFEXITED(*ended_) && WEXITSTATUS(*ended_) == 0 ? std::string()
                             : WIFEXITED(*ended_)                            ? format("exit {}", WEXITSTATUS(*ended_))
                                                  : format("exit {}", 128 + WTERMSIG(*ended_)));
      ::fcntl(client.fd, F_SETFL, 0);
      const timeval patience{5, 0};
      ::setsockopt(client.fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
      [[maybe_unused]] const ssize_t n = ::send(client.fd, client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
      ::close(client.fd);
    }
    ::unlink("attach");
    leave_files();
    tell(word);
    signal_descendants(::getpid(), SIGKILL);
    end_like(*ended_);
  }

  const ContainedLife& life_;
  const SandboxContainer& one_;
  const SandboxRoom& room_;
  int tell_;
  std::string container_folder_, folder_, id_, group_;
  int signals_ = -1, alive_ = -1;
  std::optional<ContainerLog> log_;
  int theirs_[3] = {-1, -1, -1};  // the container's ends
  int from_[2] = {-1, -1};        // what it writes; of a terminal there is one
  int files_[2] = {-1, -1};
  int to_ = -1;  // its input; of a terminal the same as from_[0]
  int console_ = -1, attach_ = -1;
  int told_ = -1;  // what lockstep-container says
  std::string told_line_;
  std::list<Client> clients_;
  std::string input_;
  bool input_ends_ = false;
  int stop_signal_ = SIGTERM;  // by which it is told to end
  pid_t first_ = 0, awaited_ = 0;
  bool called_off_ = false;  // before it began
  std::optional<int> ended_, awaited_status_;
};

}  // namespace

std::string runtime_path() {
  for (const char* folder : kRuntimeFolders)
    if (std::string path = format("{}/{}", folder, kRuntimeProgram); ::access(path.c_str(), X_OK) == 0)
      return path;
  return {};
}

std::uint64_t oom_kills_in(const std::string& group) {
  for (const std::string& file :
       {format("/sys/fs/cgroup/memory{}/memory.oom_control", group), format("/sys/fs/cgroup{}/memory.events", group)})
    if (const auto text = read_plain(file, Links::kRefused, 64 << 10); text.ok())
      return number_behind(*text, "oom_kill");
  return 0;
}

[[noreturn]] void be_parent_of_contained(const ContainedLife& life, int tell) { Parent(life, tell).run(); }

}  // namespace lockstep
