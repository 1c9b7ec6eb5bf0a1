// One running step as srun accompanies it: the connection to its tasks' I/O (made again when it is lost), the terminal,
// the signals, and the rules that end a step early. Blocks until every task has ended or the step is lost.
#pragma once

#include <termios.h>

#include <optional>

#include "frontends/slurm/client/allocate.h"
#include "frontends/slurm/client/end_watch.h"
#include "frontends/slurm/client/output_file.h"
#include "frontends/slurm/client/step_output.h"
#include "frontends/slurm/client/unsent_signals.h"
#include "pmi/hub.h"

namespace lockstep::slurm {

struct StepSink {
  std::shared_ptr<OutputFile> file;        // null: nowhere; output and error may share one
  std::optional<std::uint32_t> only_rank;  // the others' output is dropped
};

struct SessionAsk {
  JobId job;
  Ref<Step> step;
  StepSink out{std::make_shared<OutputFile>(1, "standard output"), {}},
      err{std::make_shared<OutputFile>(2, "standard error"), {}};
  enum class Input : unsigned char { kNone, kAll, kRank } input = Input::kAll;
  std::uint32_t input_rank = 0;
  bool label = false, unbuffered = false, pty = false, kill_on_bad_exit = false;
  bool disable_status = false, quit_on_interrupt = false;
  bool onlooker = false;      // somebody else's srun accompanies the step: a signal ends us, and not the tasks
  bool lingers = false;       // what the tasks leave behind outlives us: a signal ends their input, and nothing else
  Duration wait_after_first;  // 0 = no bound
  Duration time_limit;        // of the step inside its job; 0 = none of its own
};

// The terminal in raw mode, restored in the end.
class RawTerminal {
 public:
  explicit RawTerminal(bool wanted);
  ~RawTerminal();
  RawTerminal(RawTerminal&&) = delete;

 private:
  bool changed_ = false;
  ::termios before_{};
};
struct WindowSize {
  std::uint16_t rows = 0, columns = 0;
};
WindowSize window_size();

class StepSession {
 public:
  // end: of the job, when this srun owns it; null otherwise.
  StepSession(const ClientContext& context, Api& api, const Voice& voice, SignalDesk& signals, SessionAsk ask,
              JobEnd* end);
  ~StepSession();

  // The exit code of srun, or why the step could not be accompanied. Once no task runs any more `ended` is called,
  // before the last of their output is written: a reader who does not come keeps nothing in the cluster.
  Result<int> run(const std::function<void()>& ended);
  const std::map<std::uint32_t, ExitStatus>& exits() const { return output_.exits(); }
  bool all_exited() const { return output_.all_exited(); }
  bool gave_up() const { return gave_up_; }  // the end was asked for, and nobody there answered
  // Tasks that are one world ended because one of them said so, or ended badly: the exit code of srun.
  std::optional<int> world_ended() const { return world_ended_; }

 private:
  void look_away(int signal);
  void tasks_are_to_end();
  void turn();
  bool is_lost() const;
  void finish(const std::function<void()>& ended);
  void connect_if_due();
  void take_connection();
  void attach(int fd);
  void connection_lost(const Error* why);
  void not_connected(const Error& why);
  void read_frames();
  void take_frame(const Frame& frame);
  void node_gone(const std::string& node, std::uint32_t rank);
  void send_queued();
  void read_input();
  void end_input();
  bool may_read_input() const;
  void handle_signals();
  void exchange();
  void signal_tasks(int signal);
  void tell_kept(int signal) const;
  void interrupt();
  void end_step();
  void report_exits();
  void check_rules();
  void look_at_clock();
  void look_for_life();
  void give_up();
  void check_step();
  void take_record(const Result<Ref<Step>>& record);
  ExitStatus recorded_exit(std::uint32_t rank) const;
  void job_ended();
  void deliver(std::uint32_t rank, int fd, std::string_view text);
  void write(OutputFile& file, std::string_view text);
  void write_patiently(OutputFile& file, std::string_view text);
  void write_kept(OutputFile& file);
  void write_all_kept(bool without_waiting);
  std::optional<bool> await_room(const OutputFile& file, bool unread);
  bool is_given_up(bool unread, std::int64_t blocked_since_ms) const;
  void tell_if_lost(OutputFile& file);
  bool keeps_output() const;
  int exit_code() const;
  std::int64_t connection_due_ms(std::int64_t now) const;
  std::int64_t end_due_ms() const;
  int poll_timeout() const;
  std::string node_of(std::uint32_t rank);
  std::string ranks_text(bool running) const;

  const ClientContext& context_;
  Api& api_;
  const Voice& voice_;
  SignalDesk& signals_;
  SessionAsk ask_;
  JobEnd* end_;
  std::uint32_t tasks_ = 0;
  StepOutput output_;
  StepInput input_;
  std::optional<PmiHub> hub_;  // of tasks that find each other by a process management interface
  std::optional<int> world_ended_;
  std::optional<RawTerminal> terminal_;

  int fd_ = -1;
  Pending<Result<int>> connecting_;
  std::int64_t connect_at_ms_ = 0, lost_at_ms_ = 0, heard_at_ms_ = 0;
  bool lost_said_ = false;
  FrameReader reader_;
  std::string queue_;
  UnsentSignals unsent_;  // those among them, and those given while there is no connection
  bool input_open_ = true;
  std::int64_t interrupted_ms_ = -10'000, ended_ms_ = 0;  // last Ctrl-C; when the end of the step was asked for
  std::int64_t first_exit_ms_ = 0, give_up_ms_ = 0;
  Pending<Result<void>> ending_;
  Pending<Result<Ref<Step>>> checking_;
  std::optional<std::vector<Ref<Node>>> nodes_;
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> gone_;  // nodes out of reach, with their ranks
  EndWatch watch_;
  std::int64_t asked_to_end_ms_ = 0;  // by a signal: output that nobody takes does not keep us much longer
  std::optional<Error> refused_;      // no thread could be made to connect with
  bool attached_ = false;             // at least once
  std::int64_t checked_ms_ = 0;       // when the controller was last asked for the step's record
  bool gave_up_ = false;
  int left_by_ = 0;  // the signal that made an onlooker leave
  std::int64_t limit_ms_ = INT64_MAX;
};

}  // namespace lockstep::slurm
