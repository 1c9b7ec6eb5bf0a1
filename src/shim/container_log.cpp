#include "shim/container_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/plain_file.h"
#include "base/text.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr std::size_t kLineMax = 16 << 10;  // a longer one is written in parts
constexpr int kLookEveryMs = 50;

std::string older(const std::string& path, int number) { return number == 0 ? path : format("{}.{}", path, number); }

}  // namespace

std::string log_time(std::int64_t wall_ns) {
  const time_t seconds = wall_ns / 1'000'000'000;
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t size = ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return format("{}.{:09}Z", std::string_view(text, size), wall_ns % 1'000'000'000);
}

Result<ContainerLog> ContainerLog::open(const std::string& path, const std::string& shown) {
  ContainerLog log;
  log.path_ = path;
  log.shown_ = shown;
  log.fd_ = TRY(open_plain(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC));
  struct stat stat {};
  if (::fstat(log.fd_, &stat) == 0)
    log.bytes_ = static_cast<std::uint64_t>(stat.st_size);
  log.show();
  return log;
}

ContainerLog::ContainerLog(ContainerLog&& other) noexcept
    : path_(std::move(other.path_)),
      shown_(std::move(other.shown_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_) {
  for (int i : {0, 1}) unfinished_[i] = std::move(other.unfinished_[i]);
}

ContainerLog::~ContainerLog() {
  if (fd_ >= 0)
    ::close(fd_);
}

void ContainerLog::take(Stream stream, std::string_view bytes) {
  std::string& held = unfinished_[static_cast<int>(stream)];
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = kLineMax - held.size();
    if (end != bytes.npos && end <= room) {
      held.append(bytes.substr(0, end));
      write_line(stream, held, true);
      held.clear();
      bytes.remove_prefix(end + 1);
    } else if (const std::size_t size = std::min(room, bytes.size()); held.size() + size == kLineMax) {
      held.append(bytes.substr(0, size));
      write_line(stream, held, false);
      held.clear();
      bytes.remove_prefix(size);
    } else {
      held.append(bytes);
      return;
    }
  }
}

void ContainerLog::end() {
  for (const Stream stream : {Stream::kOutput, Stream::kError})
    if (std::string& held = unfinished_[static_cast<int>(stream)]; !held.empty()) {
      write_line(stream, held, false);
      held.clear();
    }
}

// A disk that is full costs lines, and nothing else.
void ContainerLog::write_line(Stream stream, std::string_view text, bool whole) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::string line = format("{} {} {} {}\n", log_time(std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec),
                                  stream == Stream::kOutput ? "stdout" : "stderr", whole ? 'F' : 'P', text);
  if (bytes_ + line.size() > kLogBytesMax && bytes_ > 0)
    turn_over();
  const ssize_t n = ::write(fd_, line.data(), line.size());
  bytes_ += n > 0 ? static_cast<std::size_t>(n) : 0;
}

// The same file by another name: who reads it there has all that is written, and nothing is written twice.
void ContainerLog::show() const {
  if (shown_.empty())
    return;
  ::unlink(shown_.c_str());
  (void)!::link(path_.c_str(), shown_.c_str());
}

void ContainerLog::turn_over() {
  for (int i = kOlderLogs; i > 0; --i) {
    ::rename(older(path_, i - 1).c_str(), older(path_, i).c_str());
    if (!shown_.empty())
      ::rename(older(shown_, i - 1).c_str(), older(shown_, i).c_str());
  }
  const auto next = open_plain(path_, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
  if (!next.ok())
    return;
  ::close(std::exchange(fd_, *next));
  bytes_ = 0;
  show();
}

namespace {

// The parts of one line of the file.
struct LogLine {
  std::string_view time, text;
  bool whole = true;
};
LogLine parse_log_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto second = first == line.npos ? first : line.find(' ', first + 1);
  if (second == line.npos || second + 2 >= line.size() + 1)
    return {{}, line, true};
  return {line.substr(0, first), line.substr(std::min(second + 3, line.size())), line.substr(second + 1, 1) != "P"};
}

class LogSender {
 public:
  LogSender(int to, const std::string& folder, const ContainerAsk& ask)
      : to_(to), path_(format("{}/{}", folder, kLogFile)), folder_(folder), ask_(ask) {
    if (ask.since)
      since_ = log_time(ask.since.us * 1000);
    left_ = ask.bytes_max < 0 ? INT64_MAX : ask.bytes_max;
  }
  ~LogSender() {
    for (const int fd : files_) ::close(fd);
  }

  void run() {
    const int alive = ::open((folder_ + "/alive").c_str(), O_RDONLY | O_CLOEXEC);
    open_all();
    if (ask_.tail >= 0)
      skip_to_tail();
    for (;;) {
      // Asked before the reading: what is written before the end is read behind it.
      const bool over = !ask_.follow || alive < 0 || ::flock(alive, LOCK_SH | LOCK_NB) == 0;
      while (read_some()) {}
      if (done_ || (over && !next_file()))
        break;
      if (!over && !next_file() && is_gone())
        break;
    }
    if (alive >= 0)
      ::close(alive);
  }

 private:
  // The oldest first. One that is put behind the others meanwhile is still the one that we have open.
  void open_all() {
    for (int i = kOlderLogs; i >= 0; --i)
      if (const auto fd = open_plain(older(path_, i), O_RDONLY | O_CLOEXEC); fd.ok())
        files_.push_back(*fd);
  }

  // True: another file follows the one that was read to its end.
  bool next_file() {
    if (at_ + 1 < files_.size()) {
      ++at_;
      return true;
    }
    const auto fd = open_plain(path_, O_RDONLY | O_CLOEXEC);
    if (!fd.ok())
      return false;
    struct stat mine {
    }, there{};
    if (!files_.empty() && ::fstat(files_.back(), &mine) == 0 && ::fstat(*fd, &there) == 0 &&
        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) {
      ::close(*fd);
      return false;
    }
    at_ = files_.size();
    files_.push_back(*fd);
    return true;
  }

  void skip_to_tail() {
    std::int64_t lines = 0;
    const auto count = [&](int fd, std::int64_t stop_at) -> off_t {
      char chunk[64 << 10];
      off_t at = 0;
      for (ssize_t n; (n = ::pread(fd, chunk, sizeof chunk, at)) > 0; at += n)
        for (const char* p = chunk;
             (p = static_cast<const char*>(::memchr(p, '\n', static_cast<std::size_t>(chunk + n - p)))) != nullptr; ++p)
          if (++lines == stop_at)
            return at + (p - chunk) + 1;
      return at;
    };
    for (const int fd : files_) count(fd, -1);
    const std::int64_t skipped = lines - ask_.tail;
    if (skipped <= 0)
      return;
    lines = 0;
    for (at_ = 0; at_ < files_.size(); ++at_) {
      const off_t end = count(files_[at_], skipped);
      if (lines == skipped) {
        ::lseek(files_[at_], end, SEEK_SET);
        return;
      }
    }
    at_ = files_.empty() ? 0 : files_.size() - 1;
  }

  bool read_some() {
    if (done_ || at_ >= files_.size())
      return false;
    char chunk[64 << 10];
    const ssize_t n = ::read(files_[at_], chunk, sizeof chunk);
    if (n <= 0)
      return false;
    held_.append(chunk, static_cast<std::size_t>(n));
    std::string out;
    std::size_t from = 0;
    for (std::size_t end; (end = held_.find('\n', from)) != held_.npos; from = end + 1)
      add(std::string_view(held_).substr(from, end - from), out);
    held_.erase(0, from);
    send(out);
    return !done_;
  }

  void add(std::string_view text, std::string& out) {
    const LogLine line = parse_log_line(text);
    if (!since_.empty() && line.time < since_)
      return;
    // What goes on in the next line has its time once.
    if (ask_.times && !in_line_)
      out.append(line.time).push_back(' ');
    out.append(line.text).append(line.whole ? "\n" : "");
    in_line_ = !line.whole;
  }

  void send(std::string_view bytes) {
    if (static_cast<std::int64_t>(bytes.size()) >= left_) {
      bytes = bytes.substr(0, static_cast<std::size_t>(left_));
      done_ = true;
    }
    left_ -= static_cast<std::int64_t>(bytes.size());
    while (!bytes.empty()) {
      const ssize_t n = ::write(to_, bytes.data(), bytes.size());
      if (n <= 0 && errno != EINTR) {
        done_ = true;
        return;
      }
      if (n > 0)
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  bool is_gone() const {
    pollfd wait{to_, POLLRDHUP, 0};
    return ::poll(&wait, 1, kLookEveryMs) > 0 && (wait.revents & (POLLERR | POLLHUP | POLLRDHUP)) != 0;
  }

  int to_;
  std::string path_, folder_;
  const ContainerAsk& ask_;
  std::string since_, held_;
  std::vector<int> files_;
  std::size_t at_ = 0;
  std::int64_t left_ = 0;
  bool done_ = false, in_line_ = false;
};

}  // namespace

void send_log(int to, const std::string& folder, const ContainerAsk& ask) { LogSender(to, folder, ask).run(); }

std::string log_tail(const std::string& path, std::size_t lines, std::size_t bytes) {
  const auto text = read_plain(path, Links::kRefused, 2 * kLogBytesMax);
  if (!text.ok())
    return {};
  std::string out;
  std::size_t from = 0, kept = 0;
  std::string_view rest = *text;
  while (!rest.empty() && kept < lines && rest.size() > 1) {
    from = rest.find_last_of('\n', rest.size() - 2);
    const std::string_view line = rest.substr(from == rest.npos ? 0 : from + 1);
    const LogLine parsed = parse_log_line(line.substr(0, line.find('\n')));
    out.insert(0, std::string(parsed.text) + (parsed.whole ? "\n" : ""));
    ++kept;
    rest = from == rest.npos ? std::string_view() : rest.substr(0, from + 1);
    if (out.size() > bytes)
      break;
  }
  return out.size() > bytes ? out.substr(out.size() - bytes) : out;
}

}  // namespace lockstep
