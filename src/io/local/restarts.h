// What a supervisor does about a process that keeps ending: how long it waits, and the note in which it says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "io/local/process.h"

namespace lockstep {

// How long to wait before the next start: 0.1 s, and twice as long each time up to 30 s. One that ran for half a minute
// begins anew.
class Backoff {
 public:
  Duration after(Duration ran);
  void forgive() { pause_ = kFirst; }

 private:
  static constexpr Duration kFirst = millis(100), kMost = seconds(30), kGoodRun = seconds(30);
  Duration pause_ = kFirst;
};

// The state of one supervised process, for those who ask: `lockstep up`, `down` and `status`.
struct RunNote {
  std::optional<ProcessId> supervisor;  // nullopt: the process that wrote this needs no finding
  std::optional<ProcessId> process;     // nullopt: not running just now
  std::uint32_t ends = 0;               // seen by this supervisor
  bool ended_by_itself = false;         // the last time, with an exit code; else by a signal
  std::string ended;                    // the last time: "signal 9 (Killed)", "exit code 1: what it said last"
  std::int64_t ended_at_s = 0;          // since the epoch
  std::int64_t next_at_s = 0;           // when it is started again; 0 = it runs
};
std::string encode(const RunNote& note);
Result<RunNote> parse_run_note(std::string_view text);

// A file of fixed size that is written in place: a full disk keeps nobody from saying what runs.
class RunNoteFile {
 public:
  static Result<RunNoteFile> open(const std::string& path);
  RunNoteFile(RunNoteFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RunNoteFile& operator=(RunNoteFile&&) = delete;
  ~RunNoteFile();
  Result<void> lock() const;  // kConflict if somebody else writes this note
  void write(const RunNote& note) const;

 private:
  explicit RunNoteFile(int fd) : fd_(fd) {}
  int fd_;
};
Result<RunNote> read_run_note(const std::string& path);

// How a process ended, from waitpid's status, and the last line of what it logged since `log_from` where that tells of
// an error; unless somebody killed it: then what it logged last is no cause.
std::string ending_text(int wait_status, const std::string& log_path, std::int64_t log_from);
std::int64_t size_of_file(const std::string& path);  // 0 if it is not there

}  // namespace lockstep
