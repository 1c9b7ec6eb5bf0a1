// PmiLink: a step's lockstep-pmi on this node, as its shim has it: the process, which runs as the step's user; the
// variables it gives the tasks; and what it and the step's client say to each other, which is kept until the other side
// has it. The shim does not look into that. What the process says counts as a word of its user.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_queue.h"
#include "pmi/control.h"
#include "ports/shims.h"
#include "shim/job_place.h"
#include "shim/step_client.h"
#include "wire/pmi_frame.h"
#include "wire/resend_log.h"

namespace lockstep {

class PmiLink {
 public:
  // Starts the process. program: its path; key: the step's name for it, "12.0"; place: what it joins.
  static Result<std::unique_ptr<PmiLink>> start(const ShimStart& start, const std::string& program,
                                                const std::string& key, const OpenPlace& place = {});
  ~PmiLink();
  PmiLink(PmiLink&&) = delete;

  pid_t pid() const { return pid_; }
  int fd() const { return fd_; }  // -1 once the process is gone
  bool wants_to_read() const { return up_.size() < kUpMax; }
  bool wants_to_write() const { return !queue_.empty(); }
  void read();
  void write();

  // Its words for the tasks, once they have come, and the end of the socket pair of each; they are the caller's.
  std::optional<PmiVariables> take_variables();
  int take_task_end(std::size_t local);
  // Why it cannot serve the step (any more). Once.
  std::optional<std::string> take_failure();
  void tell_client(std::string why);  // that the step is to end, which the process cannot say any more

  void task_ended(std::size_t local, const ExitStatus& exit);
  void finish();  // all tasks have: it tidies up and goes
  bool finishing() const { return finishing_; }
  void exited(int status);  // the process was waited for

  // The client's side. A frame that says what cannot be drops the client.
  void attach(StepClient& client) const;
  bool take(const Frame& frame);
  bool pump(StepClient& client) const;  // true: a bound left something out
  bool all_acknowledged() const { return up_.size() == 0; }

 private:
  static constexpr std::size_t kUpMax = 4 << 20;      // of the process's words that the client does not have yet
  static constexpr std::size_t kQueueMax = 16 << 20;  // of the client's words that the process does not read

  explicit PmiLink(std::uint32_t first_rank) : first_rank_(first_rank) {}
  void hear(PmiControl kind, std::string_view payload);
  void lost(std::string why);
  void close_fd();
  void end_process() const;

  std::uint32_t first_rank_;
  std::size_t tasks_ = 0;
  pid_t pid_ = 0;
  int fd_ = -1;
  std::vector<int> task_ends_;  // -1 once they were taken
  PmiControlReader reader_{pmi_control_bound};
  ByteQueue queue_;  // to the process
  std::optional<PmiVariables> variables_;
  bool ready_ = false;
  std::optional<std::string> failure_;
  bool lost_ = false, finishing_ = false;
  ResendLog up_;
  std::uint64_t got_own_ = 0, got_all_ = 0;
};

}  // namespace lockstep
