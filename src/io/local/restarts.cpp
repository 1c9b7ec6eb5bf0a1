#include "io/local/restarts.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kNoteBytes = 4096;
constexpr std::size_t kEndedMax = 1'500;  // of what a process said last
constexpr std::int64_t kLogTail = 4096;   // bytes of a log that are looked at
constexpr int kReadTries = 20;
constexpr int kLockTries = 200;  // of 10 ms
constexpr std::string_view kFirstLine = "lockstep run note 1", kLastLine = "all of it";

// One line of printable characters: a log may hold what a user sent.
std::string plain(std::string_view text) {
  std::string out(text.substr(0, kEndedMax));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32 || c == 127)
      c = '?';
  return out;
}

// The last line, unless it is one of those that tell of ordinary things: they give no reason for an end. What bears no
// level was written by who could not do better, such as a failed CHECK.
std::string last_words_in(const std::string& path, std::int64_t from) {
  const auto opened = open_plain(path, O_RDONLY);
  if (!opened)
    return {};
  const int fd = *opened;
  std::string tail(static_cast<std::size_t>(kLogTail), '\0');
  const std::int64_t size = size_of_file(path);
  const ssize_t n = ::pread(fd, tail.data(), tail.size(), std::max(from > size ? 0 : from, size - kLogTail));
  ::close(fd);
  tail.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  const auto text = trim(tail);
  const auto line = text.substr(text.rfind('\n') + 1);
  const auto level = level_of(line);
  return level == "info" || level == "warning" ? "" : plain(without_stamp(line));
}

void read_field(RunNote& note, std::string_view key, std::string_view value) {
  const auto number = parse_int(value);
  if (key == "supervisor")
    note.supervisor = parse_process(value);
  else if (key == "process")
    note.process = parse_process(value);
  else if (key == "ended")
    note.ended = value;
  else if (!number)
    return;
  else if (key == "ends")
    note.ends = static_cast<std::uint32_t>(*number);
  else if (key == "ended_by_itself")
    note.ended_by_itself = *number != 0;
  else if (key == "ended_at_s")
    note.ended_at_s = *number;
  else if (key == "next_at_s")
    note.next_at_s = *number;
}

}  // namespace

Duration Backoff::after(Duration ran) {
  if (ran >= kGoodRun)
    forgive();
  const Duration now = pause_;
  pause_ = std::min(pause_ * 2, kMost);
  CHECK(now >= kFirst && now <= pause_ && pause_ <= kMost);
  return now;
}

std::string encode(const RunNote& note) {
  const auto text = [](const std::optional<ProcessId>& process) { return process ? process_text(*process) : ""; };
  return format(
      "{}\nsupervisor={}\nprocess={}\nends={}\nended_by_itself={}\nended={}\nended_at_s={}\nnext_at_s={}\n{}\n",
      kFirstLine, text(note.supervisor), text(note.process), note.ends, note.ended_by_itself ? 1 : 0, plain(note.ended),
      note.ended_at_s, note.next_at_s, kLastLine);
}

Result<RunNote> parse_run_note(std::string_view text) {
  RunNote note;
  const auto lines = split(text, '\n');
  if (lines.empty() || lines[0] != kFirstLine || std::find(lines.begin(), lines.end(), kLastLine) == lines.end())
    return Error{Errc::kCorrupt, "this is no whole note of what runs", {}};
  for (const auto& line : lines) {
    if (line == kLastLine)
      break;
    if (const auto equals = line.find('='); equals != std::string::npos)
      read_field(note, std::string_view(line).substr(0, equals), std::string_view(line).substr(equals + 1));
  }
  return note;
}

Result<RunNoteFile> RunNoteFile::open(const std::string& path) {
  return RunNoteFile(TRY(open_plain(path, O_RDWR | O_CREAT)));
}

RunNoteFile::~RunNoteFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<void> RunNoteFile::lock() const {
  // A killed one keeps its lock for the moment that its end takes.
  for (int tries = 0; ::flock(fd_, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (tries == kLockTries)
      return conflict("another supervisor is at work here");
    ::usleep(10'000);
  }
  return {};
}

void RunNoteFile::write(const RunNote& note) const {
  CHECK(fd_ >= 0);
  std::string text = encode(note);
  CHECK(text.size() <= kNoteBytes, format("a note of {} bytes", text.size()));
  text.resize(kNoteBytes, '\n');
  // What cannot be written is not known to others; the process is kept running all the same.
  (void)!::pwrite(fd_, text.data(), text.size(), 0);
}

Result<RunNote> read_run_note(const std::string& path) {
  // A reader may meet a half written note; the writer needs no more than a moment for the rest.
  for (int tries = 0;; ++tries) {
    const auto note = parse_run_note(TRY(read_file(path)));
    if (note || tries == kReadTries)
      return note;
    ::usleep(1'000);
  }
}

namespace {

// What the process did to itself: then its last words tell why. One that was killed has said nothing about that.
bool is_crash(int signal) {
  return signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGTRAP || signal == SIGSYS;
}

}  // namespace

std::string ending_text(int status, const std::string& log_path, std::int64_t log_from) {
  const std::string how = WIFSIGNALED(status)
                              ? format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)))
                              : format("exit code {}", WEXITSTATUS(status));
  const bool tells = !WIFSIGNALED(status) || is_crash(WTERMSIG(status));
  const std::string said = tells ? last_words_in(log_path, log_from) : "";
  return said.empty() ? how : how + ": " + said;
}

std::int64_t size_of_file(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_size : 0;
}

}  // namespace lockstep
