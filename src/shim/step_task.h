// One task of a step while it runs: its process, what it wrote and nobody has yet, what it is still to read.
//
// prepared ──launched()──▶ running ──exited()──▶ over.   A failed start, or one that was called off, is over at once.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ports/shims.h"
#include "shim/container_task.h"
#include "shim/job_place.h"
#include "shim/line_sign.h"
#include "shim/output_log.h"
#include "shim/sandbox_task.h"
#include "shim/step_client.h"
#include "shim/task_launch.h"

namespace lockstep {

// How a process ended, and what it and the children it waited for had used by then.
struct TaskEnd {
  int wait_status = 0;
  Duration user, system;
  std::int64_t memory_peak = 0;  // bytes: of the one that held most at once
};

class StepTask {
 public:
  // spill: folder for output that exceeds memory.
  StepTask(const ShimStart& start, std::size_t local, const OutputLimits& limits, const std::string& host,
           std::string spill = ".");
  ~StepTask();
  StepTask(StepTask&&) = delete;

  // Everything before the process. twin_outputs: an earlier task of this step writes to the same file, so it is not
  // truncated. container: where the task's container is made; null: it runs on the node itself.
  // place: what it joins. sandbox: its containers are what runs. tell_fd: what runs is a program of ours (its words are
  // those of lockstep-shim), and tells there what it has to say; -1 = it is not.
  Result<void> prepare(const ShimStart& start, int script_fd, bool twin_outputs,
                       const ContainerPlace* container = nullptr, const OpenPlace& place = {},
                       const SandboxTask* sandbox = nullptr, int tell_fd = -1);
  // What follows the tasks may write where this one wrote its errors: -1 if that is a file, or nobody listens.
  int kept_error_fd() const { return kept_error_fd_; }
  void close_kept();
  // Of a task that finds others (Pmi), behind prepare: with these variables and this descriptor, which is taken; -1 =
  // none.
  void join_world(const std::vector<std::string>& common, const std::vector<std::string>& own, int fd);
  TaskStart* start() { return start_.get(); }
  Result<void> launched();        // its start has run
  void called_off();              // its start never will
  void refused(std::string why);  // the same, and why; "" = that was told already

  std::uint32_t rank() const { return place_.rank; }
  pid_t pid() const { return pid_; }  // 0 before it runs, or if it never did
  bool running() const { return state_ == State::kRunning; }
  bool over() const { return state_ == State::kOver; }
  const ExitStatus& exit() const { return exit_; }
  const std::string& failure() const { return failure_; }
  const std::string& output_path(int stream) const { return output_paths_[stream]; }
  const TaskEnd& end() const { return end_; }  // zeros if it never ran
  void exited(const TaskEnd& end);
  void was_out_of_memory() { exit_.oom = true; }

  // Output. Descriptors are -1 when there is nothing to read (any more).
  int output_fd(int stream) const { return output_fds_[stream]; }
  bool wants_output(int stream) const { return output_fds_[stream] >= 0 && logs_[stream]->has_room(); }
  // One read. At the end of the stream the function is called first: what it tells the client comes before that end.
  void read_output(int stream, const std::function<void()>& before_its_end = {});
  void drain_output(int stream);  // to the end; no process of the step is left
  // Whether a line has come, since it was asked last, by which the job says that its work is saved.
  bool take_sign() { return std::exchange(sign_seen_, false); }
  // A line of ours behind what the task wrote: at its client, as long as it listens. False: that is a file's business.
  bool tell_client(std::string_view line);
  OutputLog* log(int stream) const { return logs_[stream].get(); }
  bool output_ended(int stream) const { return output_fds_[stream] < 0; }

  // Input. offset counts from the first byte ever sent to this rank; what we already have is skipped.
  int input_fd() const { return input_fd_; }
  bool wants_to_write() const { return input_fd_ >= 0 && (!input_.empty() || !said_.empty() || input_eof_); }
  void take_input(std::uint64_t offset, std::string_view bytes);
  void end_input(std::uint64_t offset);
  // What an onlooker says to it: given to it between what comes by take_input, whose offsets do not count it.
  void take_words(std::string_view bytes);
  void write_input();
  std::uint64_t input_done() const { return input_done_; }  // offset up to which the task has been given it
  std::size_t input_queued() const { return input_.size(); }
  std::size_t words_queued() const { return said_.size(); }
  void resize_terminal(std::uint16_t rows, std::uint16_t columns);

 private:
  enum class State : unsigned char { kPrepared, kRunning, kOver };
  void close_input();
  Result<int> make_pipe(TaskPlan& plan, int stream);
  void make_log(int stream);
  Result<void> plan_terminal(const TaskProcesses& step, TaskPlan& plan);
  Result<void> plan_streams(const ShimStart& start, TaskPlan& plan, bool twin_outputs);

  TaskPlace place_;
  std::size_t local_;
  pid_t pid_ = 0;
  State state_ = State::kPrepared;
  std::unique_ptr<TaskPlan> plan_;  // until it is known how it finds the others
  std::unique_ptr<TaskStart> start_;
  int world_fd_ = -1;
  int child_ends_[3] = {-1, -1, -1};  // the task's own descriptors, until it has them
  ExitStatus exit_;
  TaskEnd end_;
  std::string failure_;
  std::string output_paths_[2];
  int output_fds_[2] = {-1, -1};
  LineSign signs_[2];
  bool sign_seen_ = false;
  std::unique_ptr<OutputLog> logs_[2];
  int input_fd_ = -1;
  int terminal_ = -1;  // master of the pty; owned by output_fds_[0]
  int kept_error_fd_ = -1;
  std::string input_, said_;
  std::uint64_t input_done_ = 0;
  bool input_eof_ = false;
  OutputLimits limits_;
  std::string spill_;
};

}  // namespace lockstep
