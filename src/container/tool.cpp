#include "container/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "container/open_file.h"

namespace lockstep {
namespace {

constexpr int kLookMs = 1000;
constexpr std::size_t kWordsMax = 16 << 10;  // of what it complains

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// Grows with whatever the process does: what it read and wrote, and the time it computed.
std::string activity_of(pid_t pid) {
  std::string out;
  for (const char* name : {"io", "stat"}) {
    char text[1024];
    const OpenFile file(::open(format("/proc/{}/{}", pid, name).c_str(), O_RDONLY | O_CLOEXEC));
    const ssize_t size = file.valid() ? ::read(file.get(), text, sizeof text) : 0;
    out.append(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  }
  return out;
}

// Of a log line with fields, its message.
std::string last_line(std::string_view text) {
  text = trim(text);
  text = text.substr(text.rfind('\n') + 1);
  constexpr std::string_view kMessage = " msg=\"";
  const std::size_t at = text.find(kMessage);
  if (at == text.npos || !text.ends_with('"'))
    return std::string(text);
  std::string out;
  for (std::size_t i = at + kMessage.size(); i + 1 < text.size(); ++i)
    if (text[i] != '\\' || i + 2 >= text.size())
      out.push_back(text[i]);
    else
      out.push_back(text[++i] == 'n' ? ' ' : text[i]);
  return out;
}

struct Pipes {
  OpenFile in_read, in_write, out_read, out_write, err_read, err_write;
};

Result<void> make_pipe(OpenFile& reader, OpenFile& writer) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return os_error("pipe");
  reader = OpenFile(ends[0]);
  writer = OpenFile(ends[1]);
  return {};
}

[[noreturn]] void become(const std::string& program, const ToolRun& run, Pipes& pipes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(pipes.in_read.get(), 0);
  ::dup2(pipes.out_write.get(), 1);
  ::dup2(pipes.err_write.get(), 2);
  if (!run.work_dir.empty() && ::chdir(run.work_dir.c_str()) != 0)
    ::_exit(127);
  std::vector<std::string> variables = tool_environment();
  std::vector<char*> argv, env;
  for (const std::string& word : run.argv) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& line : variables) env.push_back(const_cast<char*>(line.c_str()));
  argv.push_back(nullptr);
  env.push_back(nullptr);
  ::execve(program.c_str(), argv.data(), env.data());
  ::_exit(127);
}

// False: the stream has ended.
bool take(OpenFile& from, std::string& into, std::size_t most) {
  char chunk[16 << 10];
  const ssize_t size = ::read(from.get(), chunk, sizeof chunk);
  if (size < 0 && errno == EINTR)
    return true;
  if (size <= 0) {
    from.close();
    return false;
  }
  into.append(chunk, static_cast<std::size_t>(size));
  if (into.size() > most)
    into.erase(0, into.size() - most);
  return true;
}

void give(OpenFile& to, std::string_view& input) {
  const ssize_t size = ::write(to.get(), input.data(), input.size());
  if (size > 0)
    input.remove_prefix(static_cast<std::size_t>(size));
  if (input.empty() || (size < 0 && errno != EAGAIN && errno != EINTR))
    to.close();
}

struct Heard {
  std::string output, words;
  bool stalled = false;
  Result<void> unwanted;  // why it had to end
};

Heard listen(pid_t pid, const ToolRun& run, Pipes& pipes) {
  Heard heard;
  std::string_view input = run.input;
  ::fcntl(pipes.in_write.get(), F_SETFL, O_NONBLOCK);
  if (input.empty())
    pipes.in_write.close();
  std::string activity;
  std::int64_t active_ms = now_ms(), look_ms = 0;
  while (pipes.out_read.valid() || pipes.err_read.valid()) {
    pollfd waits[] = {
        {pipes.out_read.get(), POLLIN, 0}, {pipes.err_read.get(), POLLIN, 0}, {pipes.in_write.get(), POLLOUT, 0}};
    ::poll(waits, 3, kLookMs);
    if (waits[0].revents)
      take(pipes.out_read, heard.output, kToolOutputMax);
    if (waits[1].revents)
      take(pipes.err_read, heard.words, kWordsMax);
    if (waits[2].revents)
      give(pipes.in_write, input);
    if (now_ms() < look_ms)
      continue;
    look_ms = now_ms() + kLookMs;
    if (auto looked = run.look ? run.look() : Result<void>(); !looked.ok()) {
      heard.unwanted = std::move(looked);
      ::kill(pid, SIGKILL);
      break;
    }
    if (std::string now = activity_of(pid); now != activity) {
      activity = std::move(now);
      active_ms = now_ms();
    } else if (now_ms() - active_ms > run.stall_ms) {
      heard.stalled = true;
      ::kill(pid, SIGKILL);
      break;
    }
  }
  return heard;
}

}  // namespace

std::vector<std::string> tool_environment() {
  constexpr const char* kNames[] = {"HOME",
                                    "USER",
                                    "LOGNAME",
                                    "TMPDIR",
                                    "XDG_CONFIG_HOME",
                                    "XDG_RUNTIME_DIR",
                                    "DOCKER_CONFIG",
                                    "REGISTRY_AUTH_FILE",
                                    "http_proxy",
                                    "https_proxy",
                                    "no_proxy",
                                    "HTTP_PROXY",
                                    "HTTPS_PROXY",
                                    "NO_PROXY",
                                    "SSL_CERT_FILE",
                                    "SSL_CERT_DIR"};
  std::vector<std::string> out = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"};
  for (const char* name : kNames)
    if (const char* value = ::getenv(name))
      out.push_back(format("{}={}", name, value));
  return out;
}

Result<std::string> find_tool(const std::string& name) {
  for (const char* folder : {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"})
    if (const std::string path = format("{}/{}", folder, name); ::access(path.c_str(), X_OK) == 0)
      return path;
  const bool squashfs = name == "unsquashfs" || name == "mksquashfs";
  return Error{Errc::kNotFound,
               format("{} is not installed on this node: its administrator has to install the package {}", name,
                      squashfs ? "squashfs-tools" : name),
               {}};
}

Result<std::string> run_tool(const ToolRun& run) {
  const std::string program = TRY(find_tool(run.argv.at(0)));
  Pipes pipes;
  TRY(make_pipe(pipes.in_read, pipes.in_write));
  TRY(make_pipe(pipes.out_read, pipes.out_write));
  TRY(make_pipe(pipes.err_read, pipes.err_write));
  const pid_t pid = ::fork();
  if (pid < 0)
    return os_error("cannot make a process");
  if (pid == 0)
    become(program, run, pipes);
  pipes.in_read.close();
  pipes.out_write.close();
  pipes.err_write.close();
  const Heard heard = listen(pid, run, pipes);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  TRY(heard.unwanted);
  if (heard.stalled)
    return Error{Errc::kTimeout, format("{} did nothing for {} s and was ended", run.argv[0], run.stall_ms / 1000), {}};
  if (WIFEXITED(status) && std::find(run.good.begin(), run.good.end(), WEXITSTATUS(status)) != run.good.end())
    return heard.output;
  const std::string words = last_line(heard.words.empty() ? heard.output : heard.words);
  if (WIFSIGNALED(status))
    return Error{Errc::kIo, format("{} was ended by signal {}: {}", run.argv[0], WTERMSIG(status), words), {}};
  return Error{Errc::kIo, format("{}: {}", run.argv[0], words), {}};
}

}  // namespace lockstep
