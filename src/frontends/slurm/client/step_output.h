// The output of a step's tasks on its way to the client's own files: each byte once, in order per task, whole lines of
// one task at a time, labelled when asked. Pure: frames in, text out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/exit_status.h"
#include "wire/frame.h"

namespace lockstep::slurm {

// Big-endian numbers of the I/O frames' payloads.
std::string frame_number(std::uint64_t value, unsigned bytes);
std::optional<std::uint64_t> read_frame_number(std::string_view payload, std::size_t at, unsigned bytes);

struct OutputStyle {
  bool label = false;       // "RANK: " before every line
  bool by_line = true;      // hold back a line until it is whole
  std::uint32_t tasks = 1;  // of the step: the width of labels
};

class StepOutput {
 public:
  using Sink = std::function<void(std::uint32_t rank, int fd, std::string_view text)>;
  StepOutput(OutputStyle style, Sink sink) : style_(style), sink_(std::move(sink)) {}

  // False: the frame is malformed.
  bool take(const Frame& frame);  // kOutput, kOutputEof, kExited
  void exited(std::uint32_t rank, ExitStatus exit);
  void flush();  // what is held back of unfinished lines

  const std::map<std::uint32_t, ExitStatus>& exits() const { return exits_; }
  std::vector<std::pair<std::uint32_t, ExitStatus>> take_new_exits() { return std::exchange(new_exits_, {}); }
  bool all_exited() const { return exits_.size() >= style_.tasks; }

  // For kAttach after a lost connection, and frames that acknowledge what has come since the last call.
  std::string have_json(bool onlooker = false) const;
  std::string take_acks();

 private:
  struct Stream {
    std::uint64_t received = 0, acknowledged = 0;
    std::string line;       // unfinished
    bool mid_line = false;  // a label has been written for the line at hand
  };
  void write(std::uint32_t rank, int fd, Stream& stream, std::string_view bytes);
  void emit(std::uint32_t rank, int fd, Stream& stream, std::string_view lines);

  OutputStyle style_;
  Sink sink_;
  std::map<std::pair<std::uint32_t, int>, Stream> streams_;
  std::map<std::uint32_t, ExitStatus> exits_;
  std::vector<std::pair<std::uint32_t, ExitStatus>> new_exits_;
};

// The client's standard input on its way to tasks: what may be sent now, and what must be sent again on a new
// connection.
class StepInput {
 public:
  static constexpr std::size_t kWindow = 1 << 20;  // bytes not yet acknowledged by every task

  // stream: a rank, or kAllRanks. readers: how many tasks acknowledge.
  StepInput(std::uint64_t stream, std::uint32_t readers) : stream_(stream), readers_(readers) {}
  bool wants_more() const { return !eof_ && kept_.size() < kWindow; }
  std::string take(std::string_view bytes);  // frames to send
  std::string end();
  void acknowledge(std::uint32_t rank, std::uint64_t offset);
  void exited(std::uint32_t rank) { acknowledge(rank, ~std::uint64_t{0}); }
  std::string again() const;  // everything not acknowledged, for a new connection

 private:
  std::string frames(std::uint64_t offset, std::string_view bytes) const;
  std::uint64_t stream_;
  std::uint32_t readers_;
  std::map<std::uint32_t, std::uint64_t> acknowledged_;
  std::uint64_t base_ = 0;  // offset of kept_[0]
  std::string kept_;
  bool eof_ = false;
};

// Highest exit code of the tasks; 128 + signal for one that was killed.
int highest_code(const std::map<std::uint32_t, ExitStatus>& exits);
// "Exited with exit code 3", "Killed", "Out Of Memory"; of a task that never ran, why.
std::string exit_words(const ExitStatus& exit);

}  // namespace lockstep::slurm
