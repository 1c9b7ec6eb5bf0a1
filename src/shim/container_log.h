// The output of one life of a container, in a file of its own: a line for each line that it wrote, as Kubernetes'
// container runtimes write it ("TIME stdout F text"; P: the line goes on in the next). A file that has become long is
// put behind those before it, of which kOlderLogs are kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "model/container_ask.h"

namespace lockstep {

class ContainerLog {
 public:
  // path: as wire/sandbox_paths.h has it. shown: where others find the same files, in a folder that is there; "" =
  // nowhere. That they can is no condition of the log.
  static Result<ContainerLog> open(const std::string& path, const std::string& shown = {});
  ContainerLog(ContainerLog&& other) noexcept;
  ~ContainerLog();

  enum class Stream : unsigned char { kOutput, kError };
  void take(Stream stream, std::string_view bytes);
  void end();  // what has no end of a line is written, too

 private:
  ContainerLog() = default;
  void write_line(Stream stream, std::string_view text, bool whole);
  void turn_over();
  void show() const;

  std::string path_, shown_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  std::string unfinished_[2];
};

// "2026-11-26T15:00:00.000000000Z"
std::string log_time(std::int64_t wall_ns);

// What of a log somebody asked for (ContainerAsk), to a descriptor that is waited for. With `follow` until nobody holds
// the lock `alive` any more, or the reader is gone.
void send_log(int to, const std::string& folder, const ContainerAsk& ask);

// The end of what was written, for a message: at most so many lines and bytes.
std::string log_tail(const std::string& path, std::size_t lines, std::size_t bytes);

}  // namespace lockstep
