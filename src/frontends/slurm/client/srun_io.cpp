#include "frontends/slurm/client/srun_io.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "base/interval_set.h"
#include "base/text.h"
#include "model/job.h"
#include "wire/codec.h"

namespace lockstep::slurm {

namespace {

constexpr std::int64_t kReconnectPatienceMs = 10 * 60 * 1000;  // a controller restart is far shorter
constexpr std::int64_t kCheckEveryMs = 5000;                   // silence after which the step's record is looked at
constexpr std::int64_t kLastWordsMs = 3000;                    // for tasks' results after the job has ended
constexpr std::int64_t kAskAgainMs = 1000;                     // what is to be known, of a controller that is away
constexpr std::int64_t kBoredMs = 1000;                        // a wait for a reader longer than this is told
constexpr int kLookAgainMs = 100;                              // for a reader
constexpr std::size_t kQueueMax = 4 << 20;                     // to the tasks; input waits beyond it

std::uint32_t tasks_of(const Step& step) {
  std::uint32_t highest = 0;
  for (const auto& place : step.places)
    for (const auto rank : place.ranks) highest = std::max(highest, rank + 1);
  return std::max({highest, step.spec->tasks, 1U});
}

std::vector<std::uint32_t> first_ranks_of(const Step& step) {
  std::vector<std::uint32_t> ranks;
  for (const auto& place : step.places)
    if (!place.ranks.empty())
      ranks.push_back(place.ranks.front());
  return ranks;
}

}  // namespace

RawTerminal::RawTerminal(bool wanted) {
  if (!wanted || !::isatty(STDIN_FILENO) || ::tcgetattr(STDIN_FILENO, &before_) != 0)
    return;
  ::termios raw = before_;
  ::cfmakeraw(&raw);
  changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  if (changed_)
    set_line_end("\r\n");
}

RawTerminal::~RawTerminal() {
  if (!changed_)
    return;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  set_line_end("\n");
}

WindowSize window_size() {
  ::winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
    return {24, 80};
  return {size.ws_row, size.ws_col};
}

StepSession::StepSession(const ClientContext& context, Api& api, const Voice& voice, SignalDesk& signals,
                         SessionAsk ask, JobEnd* end)
    : context_(context),
      api_(api),
      voice_(voice),
      signals_(signals),
      ask_(std::move(ask)),
      end_(end),
      tasks_(tasks_of(*ask_.step)),
      output_({ask_.label, !ask_.unbuffered && !ask_.pty && (tasks_ > 1 || ask_.label), tasks_},
              [this](std::uint32_t rank, int fd, std::string_view text) { deliver(rank, fd, text); }),
      input_(ask_.input == SessionAsk::Input::kAll && !ask_.pty ? kAllRanks : ask_.input_rank,
             ask_.input == SessionAsk::Input::kAll && !ask_.pty ? tasks_ : 1),
      watch_(context.end_patience.millis()) {
  terminal_.emplace(ask_.pty);
  if (ask_.step->spec->pmi != Pmi::kNone && !ask_.onlooker)
    hub_.emplace(first_ranks_of(*ask_.step));
  if (ask_.time_limit.us > 0 && ask_.time_limit < kForever)
    limit_ms_ = monotonic_ms() + ask_.time_limit.millis();
}

StepSession::~StepSession() {
  if (fd_ >= 0)
    ::close(fd_);
}

std::string StepSession::node_of(std::uint32_t rank) {
  if (!nodes_) {
    auto nodes = api_.nodes();
    nodes_ = nodes ? std::move(*nodes) : std::vector<Ref<Node>>();
  }
  for (const auto& place : ask_.step->places)
    if (std::find(place.ranks.begin(), place.ranks.end(), rank) != place.ranks.end())
      for (const auto& node : *nodes_)
        if (node->id == place.node)
          return node->meta.name;
  return {};
}

std::string StepSession::ranks_text(bool running) const {
  IntervalSet ranks;
  for (std::uint32_t rank = 0; rank < tasks_; ++rank)
    if (output_.exits().contains(rank) != running)
      ranks.insert(rank);
  if (ranks.empty())
    return {};
  return format("{} {}", ranks.size() == 1 ? "task" : "tasks", ranks.text());
}

// A signal asked for the end, and nobody has taken a byte for a while since.
bool StepSession::is_given_up(bool unread, std::int64_t blocked_since_ms) const {
  if (asked_to_end_ms_ == 0)
    return false;
  return (unread && output_.all_exited()) ||
         monotonic_ms() - std::max(asked_to_end_ms_, blocked_since_ms) > kLastWordsMs;
}

void StepSession::tell_if_lost(OutputFile& file) {
  if (!file.take_untold() || file.failed() == EPIPE)  // who closes a pipe has seen enough
    return;
  voice_.error(format("{} could not be written: {}. What else the tasks of StepId={}.{} write there is lost",
                      file.name(), file.failed() == EINTR ? "nobody read it" : ::strerror(file.failed()),
                      ask_.job.value, ask_.step->number));
}

// Waits for room in a file, or for a signal, which is handled. False: there is none yet. Nothing: it cannot be waited.
std::optional<bool> StepSession::await_room(const OutputFile& file, bool unread) {
  ::pollfd waits[] = {{unread ? -1 : file.fd(), POLLOUT, 0}, {signals_.fd(), POLLIN, 0}};
  if (::poll(waits, 2, unread || asked_to_end_ms_ ? kLookAgainMs : -1) < 0 && errno != EINTR)
    return std::nullopt;
  if (waits[1].revents) {
    handle_signals();
    send_queued();
  }
  return waits[0].revents != 0;
}

// In pieces that a pipe takes whole, so that a stopped reader does not make us deaf to signals.
void StepSession::write_patiently(OutputFile& file, std::string_view text) {
  std::int64_t blocked_since = monotonic_ms();
  bool announced = false;
  while (!text.empty() && !file.failed()) {
    const bool unread = file.waits_for_reader();
    if (is_given_up(unread, blocked_since))
      file.fail(EINTR);
    if (file.failed())
      break;
    if (unread && !announced && monotonic_ms() - blocked_since > kBoredMs) {
      voice_.info(format("waiting for somebody to read {} (Ctrl-C twice gives up)", file.name()));
      announced = true;
    }
    const auto room = await_room(file, unread);
    if (!room)
      break;
    if (!*room)
      continue;
    const ssize_t n = ::write(file.fd(), text.data(), std::min<std::size_t>(text.size(), 4096));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (n <= 0) {
      file.fail(n < 0 ? errno : EIO);
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
    blocked_since = monotonic_ms();
  }
  tell_if_lost(file);
}

void StepSession::write_kept(OutputFile& file) {
  if (file.has_kept())
    write_patiently(file, file.take_kept());
}

void StepSession::write(OutputFile& file, std::string_view text) {
  if (file.waits_for_reader() && file.keep(text))
    return;
  write_kept(file);
  write_patiently(file, text);
}

bool StepSession::keeps_output() const {
  return (ask_.out.file && ask_.out.file->has_kept()) || (ask_.err.file && ask_.err.file->has_kept());
}

void StepSession::deliver(std::uint32_t rank, int fd, std::string_view text) {
  const StepSink& sink = fd == 1 ? ask_.out : ask_.err;
  if ((sink.only_rank && *sink.only_rank != rank) || !sink.file || sink.file->failed())
    return;
  write(*sink.file, text);
}

void StepSession::connect_if_due() {
  if ((fd_ >= 0 && !watch_.is_probing()) || connecting_ || monotonic_ms() < connect_at_ms_)
    return;
  connecting_ = Pending<Result<int>>([&context = context_, job = ask_.job, number = ask_.step->number,
                                      query = ask_.onlooker ? "?onlooker=1" : ""]() -> Result<int> {
    auto client = TRY(context.connect_at_once());
    return client->upgrade(format("/v1/steps/{}.{}/io{}", job.value, number, query), "lockstep-stepio/1");
  });
}

// What the connection before had not brought yet comes again over this one.
void StepSession::attach(int fd) {
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = fd;
  attached_ = true;
  watch_.attached(monotonic_ms());
  if (lost_said_)
    voice_.info("the connection is back");
  lost_said_ = false;
  lost_at_ms_ = 0;
  heard_at_ms_ = monotonic_ms();
  reader_ = {};
  if (hub_)
    hub_->disconnected();
  queue_ = encode_frame(static_cast<std::uint8_t>(IoFrame::kAttach), kAllRanks, output_.have_json(ask_.onlooker));
  if (ask_.onlooker) {
    queue_ += input_.again();
    return;
  }
  if (ask_.pty) {
    const WindowSize size = window_size();
    queue_ += encode_frame(static_cast<std::uint8_t>(IoFrame::kWindowSize), 0,
                           frame_number(size.rows, 2) + frame_number(size.columns, 2));
  }
  for (const int signal : unsent_.take()) signal_tasks(signal);
  if (ask_.input != SessionAsk::Input::kAll || ask_.pty) {  // tasks without input see its end at once
    for (std::uint32_t rank = 0; rank < tasks_; ++rank)
      if (ask_.input == SessionAsk::Input::kNone || rank != ask_.input_rank)
        queue_ += encode_frame(static_cast<std::uint8_t>(IoFrame::kStdinEof), rank, frame_number(0, 8));
  }
  queue_ += input_.again();
}

namespace {

// What declines an upgrade comes as the answer's body.
std::string words_of(const Error* why) {
  if (!why)
    return "closed";
  return why->message.starts_with('{') ? decode_error(why->message, 503).message : why->message;
}

}  // namespace

void StepSession::connection_lost(const Error* why) {
  if (fd_ >= 0) {
    ::close(fd_);
    watch_.lost(monotonic_ms());
    for (const int signal : unsent_.all()) tell_kept(signal);
  }
  fd_ = -1;
  queue_.clear();
  const std::int64_t now = monotonic_ms();
  if (lost_at_ms_ == 0)
    lost_at_ms_ = now;
  connect_at_ms_ = now + (now - lost_at_ms_ < 1000 ? 20 : now - lost_at_ms_ < 5000 ? 200 : 1000);
  if (!lost_said_ && now - lost_at_ms_ > 1000) {
    voice_.info(format("lost the connection to StepId={}.{} ({}); it will be made again", ask_.job.value,
                       ask_.step->number, words_of(why)));
    lost_said_ = true;
  }
  if (!checking_ && now - heard_at_ms_ > 500)
    check_step();
}

void StepSession::not_connected(const Error& why) {
  if (!attached_ && why.code == Errc::kExhausted)
    refused_ = why;  // a limit of ours, which will not go away by itself
  else if (!attached_ && ask_.onlooker && why.code == Errc::kDenied)
    refused_ = Error{why.code, words_of(&why), {}};  // the step is somebody else's
  if (fd_ >= 0)
    connect_at_ms_ = monotonic_ms() + kAskAgainMs;
  else
    connection_lost(&why);
}

void StepSession::read_frames() {
  char chunk[256 << 10];
  const ssize_t n = ::recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0) {
    if (n < 0 && errno == ECONNRESET)
      unsent_.was_not_read();
    connection_lost(nullptr);
    return;
  }
  heard_at_ms_ = monotonic_ms();
  const auto fed = reader_.feed({chunk, static_cast<std::size_t>(n)}, [this](Frame frame) { take_frame(frame); });
  if (!fed) {
    connection_lost(&fed.error());
    return;
  }
  if (fd_ >= 0)
    queue_ += output_.take_acks();
  exchange();
}

// What the nodes' tasks have for each other, and whether their world has come to its end.
void StepSession::exchange() {
  if (!hub_)
    return;
  if (fd_ >= 0)
    queue_ += hub_->frames();
  const auto abort = hub_->take_abort();
  if (!abort || ended_ms_ != 0)
    return;
  world_ended_ = abort->code & 0xff;
  voice_.error(abort->why);
  if (output_.all_exited())
    return;
  voice_.info(format("Terminating StepId={}.{}", ask_.job.value, ask_.step->number));
  end_step();
}

// It is lost, or has ended and is forgotten: the step's record knows which.
void StepSession::node_gone(const std::string& node, std::uint32_t rank) {
  for (const auto& place : ask_.step->places)
    if (std::find(place.ranks.begin(), place.ranks.end(), rank) != place.ranks.end())
      gone_.emplace_back(node, place.ranks);
  if (!checking_)
    check_step();
}

void StepSession::take_frame(const Frame& frame) {
  const auto rank = static_cast<std::uint32_t>(frame.stream);
  const auto type = static_cast<IoFrame>(frame.type);
  if ((type == IoFrame::kStarted || type == IoFrame::kOutput || type == IoFrame::kStdinAck) &&
      !output_.exits().contains(rank))
    watch_.heard(monotonic_ms());
  switch (type) {
    case IoFrame::kOutput:
    case IoFrame::kOutputEof: output_.take(frame); break;
    case IoFrame::kExited:
      if (output_.take(frame))
        input_.exited(rank);
      break;
    case IoFrame::kStdinAck:
      if (const auto offset = read_frame_number(frame.payload, 0, 8); offset && frame.stream < tasks_)
        input_.acknowledge(rank, *offset);
      break;
    case IoFrame::kFailed: voice_.error(format("{}: {}", node_of(rank), frame.payload)); break;
    case IoFrame::kNodeGone: node_gone(frame.payload, rank); break;
    case IoFrame::kPmi:
      if (hub_)
        hub_->take(frame);
      break;
    default: break;  // kStarted, and a later version's words
  }
}

namespace {

// Nothing of what was sent waits for its reader. Of a connection that broke this is not known.
bool is_all_read(int fd) {
  int waiting = 0;
  ::pollfd broken{fd, 0, 0};
  return ::ioctl(fd, SIOCOUTQ, &waiting) == 0 && waiting == 0 && ::poll(&broken, 1, 0) == 0;
}

// The other end went with bytes of ours unread.
bool was_reset(int fd) {
  int why = 0;
  ::socklen_t size = sizeof why;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) == 0 && why == ECONNRESET;
}

}  // namespace

void StepSession::send_queued() {
  // Before more is sent: a reset then tells of the signals that were sent last.
  if (fd_ >= 0 && !queue_.empty() && unsent_.has_left() && is_all_read(fd_))
    unsent_.was_read();
  while (fd_ >= 0 && !queue_.empty()) {
    const ssize_t n =
        ::send(fd_, queue_.data(), std::min<std::size_t>(queue_.size(), 256 << 10), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno != EAGAIN) {
      if (was_reset(fd_))
        unsent_.was_not_read();
      return connection_lost(nullptr);
    }
    if (n <= 0)
      return;
    queue_.erase(0, static_cast<std::size_t>(n));
    unsent_.sent(static_cast<std::size_t>(n));
  }
}

void StepSession::end_input() {
  if (!std::exchange(input_open_, false))
    return;
  queue_ += input_.end();
}

bool StepSession::may_read_input() const {
  if (ask_.input == SessionAsk::Input::kNone || !input_open_ || fd_ < 0 || !input_.wants_more() ||
      queue_.size() > kQueueMax)
    return false;
  return !::isatty(STDIN_FILENO) || ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();  // a shell's background job waits
}

void StepSession::read_input() {
  char chunk[64 << 10];
  const ssize_t n = ::read(STDIN_FILENO, chunk, sizeof chunk);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return;
  if (n <= 0) {
    end_input();
    return;
  }
  queue_ += input_.take({chunk, static_cast<std::size_t>(n)});
}

void StepSession::end_step() {
  if (ending_)
    return;
  ended_ms_ = asked_to_end_ms_ = monotonic_ms();
  watch_.asked(ended_ms_);
  ending_ = Pending<Result<void>>([&context = context_, job = ask_.job, number = ask_.step->number] {
    Api own(context);
    return own.signal_step(job, number, 0);
  });
  if (ending_.refused())
    (void)api_.signal_step(ask_.job, ask_.step->number, 0);
}

void StepSession::tell_kept(int signal) const {
  voice_.info(
      format("signal {} reaches StepId={}.{} when the connection is back", signal, ask_.job.value, ask_.step->number));
}

// One that finds no connection is sent over the next.
void StepSession::signal_tasks(int signal) {
  if (fd_ < 0 && attached_ && !unsent_.has(signal))
    tell_kept(signal);
  queue_ += encode_frame(static_cast<std::uint8_t>(IoFrame::kSignal), kAllRanks,
                         frame_number(static_cast<std::uint64_t>(signal), 1));
  unsent_.add(signal, queue_.size());
}

// First Ctrl-C: say how it stands. A second within a second: end the step. After that: kill.
void StepSession::interrupt() {
  const std::int64_t now = monotonic_ms();
  const std::string step = format("StepId={}.{}", ask_.job.value, ask_.step->number);
  if (ended_ms_ != 0 && now - ended_ms_ > 100) {
    voice_.info("forcing job termination");
    asked_to_end_ms_ = now - kLastWordsMs;
    if (give_up_ms_ == 0)
      give_up_ms_ = now + kLastWordsMs;
    gave_up_ = true;
    signal_tasks(SIGKILL);
    return;
  }
  if (ask_.disable_status && !ask_.quit_on_interrupt && now - interrupted_ms_ > 1000) {
    voice_.info(format("sending Ctrl-C to {}", step));
    signal_tasks(SIGINT);
  } else if (!ask_.quit_on_interrupt && now - interrupted_ms_ > 1000) {
    voice_.info("interrupt (one more within 1 sec to abort)");
    if (const auto running = ranks_text(true); !running.empty())
      voice_.info(format("{} {}: running", step, running));
    if (const auto ended = ranks_text(false); !ended.empty())
      voice_.info(format("{} {}: exited", step, ended));
  } else {
    voice_.info(format("sending Ctrl-C to {}", step));
    signal_tasks(SIGINT);
    end_step();
  }
  interrupted_ms_ = now;
}

namespace {

bool is_of_own_job(JobId job) {
  const char* own = ::getenv("SLURM_JOB_ID");
  return own && parse_uint(own) == job.value;
}

}  // namespace

void StepSession::handle_signals() {
  for (const auto [signal, sent_to_steps_too] : signals_.arrivals()) {
    if (ask_.onlooker) {
      look_away(signal);
    } else if (ask_.lingers && (signal == SIGINT || signal == SIGQUIT || signal == SIGTERM || signal == SIGHUP)) {
      end_input();
    } else if (sent_to_steps_too && signal != SIGQUIT && is_of_own_job(ask_.job)) {
      if (signal == SIGTERM || signal == SIGHUP)
        tasks_are_to_end();
    } else if (signal == SIGINT) {
      interrupt();
    } else if (signal == SIGWINCH) {
      if (!ask_.pty)
        continue;
      const WindowSize size = window_size();
      queue_ += encode_frame(static_cast<std::uint8_t>(IoFrame::kWindowSize), 0,
                             frame_number(size.rows, 2) + frame_number(size.columns, 2));
    } else if (signal == SIGQUIT || (signal == SIGHUP && end_)) {
      end_step();
    } else if (signal != SIGCONT || !ask_.pty) {
      if (signal == SIGTERM || signal == SIGHUP)
        tasks_are_to_end();
      voice_.verbose(format("forwarding signal {}", signal));
      signal_tasks(signal);
    }
  }
}

void StepSession::tasks_are_to_end() {
  asked_to_end_ms_ = monotonic_ms();
  watch_.asked(asked_to_end_ms_);
}

void StepSession::look_away(int signal) {
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
    left_by_ = signal;
}

void StepSession::report_exits() {
  std::map<std::pair<std::string, std::string>, IntervalSet> groups;  // (node, what) -> ranks
  for (const auto& [rank, exit] : output_.take_new_exits()) {
    if (first_exit_ms_ == 0)
      first_exit_ms_ = monotonic_ms();
    if (exit.ok())
      continue;
    groups[{node_of(rank), exit_words(exit)}].insert(rank);
    if (ask_.kill_on_bad_exit && ended_ms_ == 0 && !output_.all_exited()) {
      voice_.info(format("Terminating StepId={}.{}", ask_.job.value, ask_.step->number));
      end_step();
    }
  }
  for (const auto& [key, ranks] : groups)
    if (!ask_.onlooker)
      voice_.error(format("{}: {} {}: {}", key.first, ranks.size() == 1 ? "task" : "tasks", ranks.text(), key.second));
}

void StepSession::check_rules() {
  const std::int64_t now = monotonic_ms();
  if (ask_.wait_after_first.us > 0 && first_exit_ms_ && ended_ms_ == 0 && !output_.all_exited() &&
      now - first_exit_ms_ >= ask_.wait_after_first.millis()) {
    const std::string step = format("StepId={}.{}", ask_.job.value, ask_.step->number);
    voice_.info(format("First task exited {}s ago", ask_.wait_after_first.seconds()));
    voice_.info(format("{} {}: running", step, ranks_text(true)));
    voice_.info(format("{} {}: exited", step, ranks_text(false)));
    voice_.info(format("Terminating {}", step));
    end_step();
  }
  if (fd_ >= 0 && now - heard_at_ms_ > kCheckEveryMs && !checking_) {
    heard_at_ms_ = now;
    check_step();
  }
  look_at_clock();
  look_for_life();
}

// The step's own limit: the cluster knows the job's only.
void StepSession::look_at_clock() {
  if (monotonic_ms() < limit_ms_ || ended_ms_ != 0 || output_.all_exited())
    return;
  voice_.error(format("*** STEP {}.{} CANCELLED DUE TO TIME LIMIT ***", ask_.job.value, ask_.step->number));
  end_step();
}

// Who asked for the end does not wait for nodes that do not answer.
void StepSession::look_for_life() {
  if (gave_up_ || output_.all_exited())
    return;
  const std::int64_t now = monotonic_ms();
  switch (watch_.look(now, fd_ >= 0)) {
    case EndWatch::Do::kNothing: break;
    case EndWatch::Do::kProbe: connect_at_ms_ = std::min(connect_at_ms_, now); break;
    case EndWatch::Do::kAskController:
      if (!checking_ && now - checked_ms_ >= kAskAgainMs)
        check_step();
      break;
    case EndWatch::Do::kGiveUp: give_up(); break;
  }
}

void StepSession::give_up() {
  gave_up_ = true;
  give_up_ms_ = monotonic_ms();
  const bool controller_answers = watch_.controller_answers();
  std::set<std::string> nodes;
  for (std::uint32_t rank = 0; rank < tasks_ && controller_answers; ++rank)
    if (!output_.exits().contains(rank))
      nodes.insert(node_of(rank));
  std::string where;
  for (const auto& node : nodes) where += (where.empty() ? " on " : ", ") + node;
  voice_.error(format(
      "StepId={}.{}: no answer of {}{}{}. They are ended when they answer again, and are not waited for",
      ask_.job.value, ask_.step->number, ranks_text(true), where, controller_answers ? "" : ", nor of the controller"));
}

// Whether the step still runs, as the controller knows it: the word that counts when the connection does not talk.
void StepSession::check_step() {
  checked_ms_ = monotonic_ms();
  checking_ = Pending<Result<Ref<Step>>>([&context = context_, job = ask_.job, number = ask_.step->number] {
    Api own(context, Bearing::kAtOnce);
    return own.step(job, number);
  });
}

void StepSession::take_record(const Result<Ref<Step>>& record) {
  const bool unknown = !record && record.error().code == Errc::kNotFound;
  if (!record && !unknown)
    return;  // the controller is away: asked again later
  watch_.controller_answered(monotonic_ms());
  if (record)
    ask_.step = *record;
  const bool ended = unknown || ask_.step->state == StepState::kEnded;
  for (const auto& [node, ranks] : std::exchange(gone_, {})) {
    if (std::all_of(ranks.begin(), ranks.end(), [&](auto rank) { return output_.exits().contains(rank); }))
      continue;
    if (!record || !ended)
      voice_.error(format("Node failure on {}", node));
    for (const auto rank : ranks) {
      output_.exited(rank, record && ended ? recorded_exit(rank) : ExitStatus{0, SIGKILL, false});
      input_.exited(rank);
    }
  }
  if (ended && give_up_ms_ == 0)
    give_up_ms_ = monotonic_ms() + kLastWordsMs;
}

// As the ended step's record has it. It keeps the first 64 failures; beyond those the highest stands for all.
ExitStatus StepSession::recorded_exit(std::uint32_t rank) const {
  for (const auto& [failed, exit] : ask_.step->failures)
    if (failed == rank)
      return exit;
  const bool names_all = !ask_.step->failures.empty() && ask_.step->failures.size() < 64;
  return names_all ? ExitStatus{} : ask_.step->exit;  // of a node that is gone no task was heard
}

void StepSession::job_ended() {
  auto answer = end_->take();
  if (!answer)
    return;
  if (!*answer) {
    voice_.error(format("Lost sight of job {}: {}", ask_.job.value, answer->error().message));
  } else if ((**answer)->state == JobState::kTimeout) {
    voice_.error(format("*** JOB {} CANCELLED DUE TO TIME LIMIT ***", ask_.job.value));
  } else if ((**answer)->state == JobState::kNodeFail) {
    voice_.error(format("Node failure: job {} ended ({})", ask_.job.value, (**answer)->end_reason));
  } else if (!output_.all_exited()) {
    voice_.info(format("Force Terminated JobId={}", ask_.job.value));
  }
  give_up_ms_ = monotonic_ms() + kLastWordsMs;
}

// When the connection wants something: to be made, a question about a silent step, or a word of life.
std::int64_t StepSession::connection_due_ms(std::int64_t now) const {
  std::int64_t until = INT64_MAX;
  if ((fd_ < 0 || watch_.is_probing()) && !connecting_)
    until = std::min(until, connect_at_ms_);
  if (fd_ >= 0 && !checking_)  // a question that is on its way is not asked again
    until = std::min(until, heard_at_ms_ + kCheckEveryMs + 1);
  if (const std::int64_t due = watch_.due_ms(fd_ >= 0); !gave_up_)
    until = std::min(until, due > now ? due : now + kAskAgainMs);
  return until;
}

// When a time limit or our patience is over.
std::int64_t StepSession::end_due_ms() const {
  std::int64_t until = give_up_ms_ ? give_up_ms_ : INT64_MAX;
  if (ended_ms_ != 0)
    return until;
  if (ask_.wait_after_first.us > 0 && first_exit_ms_)
    until = std::min(until, first_exit_ms_ + ask_.wait_after_first.millis());
  return std::min(until, limit_ms_);
}

int StepSession::poll_timeout() const {
  const std::int64_t now = monotonic_ms();
  std::int64_t until = std::min(connection_due_ms(now), end_due_ms());
  if (keeps_output())
    until = std::min(until, now + kLookAgainMs);
  if (input_open_ && ask_.input != SessionAsk::Input::kNone && ::isatty(STDIN_FILENO))
    until = std::min(until, now + 1000);  // may come to the foreground
  if (until == INT64_MAX)
    return -1;
  return static_cast<int>(std::clamp<std::int64_t>(until - now, 0, 60'000));
}

// The tasks' own code; without one, 1 when their output was lost.
int StepSession::exit_code() const {
  const auto lost = [](const StepSink& sink) {
    return sink.file && sink.file->failed() != 0 && sink.file->failed() != EPIPE;
  };
  const int code = world_ended_.value_or(highest_code(output_.exits()));
  return code == 0 && (lost(ask_.out) || lost(ask_.err)) ? 1 : code;
}

void StepSession::take_connection() {
  const auto connected = connecting_.take();
  if (!connected)
    return;
  if (*connected)
    attach(**connected);
  else
    not_connected(connected->error());
}

void StepSession::write_all_kept(bool without_waiting) {
  for (const StepSink* sink : {&ask_.out, &ask_.err})
    if (sink->file && sink->file->has_kept() && !(without_waiting && sink->file->waits_for_reader()))
      write_kept(*sink->file);
}

// One wait, and what came of it.
void StepSession::turn() {
  ::pollfd waits[] = {
      {signals_.fd(), POLLIN, 0},
      {fd_, static_cast<short>(POLLIN | (queue_.empty() ? 0 : POLLOUT)), 0},
      {may_read_input() ? STDIN_FILENO : -1, POLLIN, 0},
      {connecting_.fd(), POLLIN, 0},
      {checking_.fd(), POLLIN, 0},
      {end_ ? end_->fd() : -1, POLLIN, 0},
      {ask_.onlooker && ask_.out.file ? ask_.out.file->fd() : -1, 0, 0},
  };
  ::poll(waits, std::size(waits), poll_timeout());
  if (waits[0].revents)
    handle_signals();
  take_connection();
  const bool is_same = fd_ >= 0 && waits[1].fd == fd_;
  if (is_same && (waits[1].revents & (POLLIN | POLLHUP | POLLERR)))
    read_frames();
  if (waits[2].revents)
    read_input();
  if (auto checked = checking_.take())
    take_record(*checked);
  if (end_ && *end_)
    job_ended();
  write_all_kept(true);
  const bool unread = (waits[6].revents & POLLERR) || (ask_.out.file && ask_.out.file->failed() == EPIPE);
  if (ask_.onlooker && left_by_ == 0 && unread)
    left_by_ = SIGPIPE;  // an onlooker whom nobody reads any more has nothing left to do
}

// Nothing more will be heard of the step, or not in time.
bool StepSession::is_lost() const {
  const std::int64_t now = monotonic_ms();
  return (give_up_ms_ && now >= give_up_ms_) || (lost_at_ms_ && now - lost_at_ms_ > kReconnectPatienceMs);
}

// What is left to write and to tell.
void StepSession::finish(const std::function<void()>& ended) {
  output_.flush();
  terminal_.reset();
  report_exits();
  send_queued();
  tell_the_end(signals_, format("{}: ended before the cluster knew of the step's end\n", voice_.command()), [&] {
    if (gave_up_)
      (void)api_.signal_step(ask_.job, ask_.step->number, 0, millis(kLastWordsMs));
    ended();
  });
  write_all_kept(false);
}

Result<int> StepSession::run(const std::function<void()>& ended) {
  bool lost = false;
  while (!output_.all_exited() && !lost && left_by_ == 0) {
    connect_if_due();
    if (refused_)
      return *refused_;
    send_queued();
    turn();
    if (output_.all_exited())
      terminal_.reset();
    report_exits();
    check_rules();
    lost = is_lost();
  }
  if (left_by_ != 0) {
    output_.flush();
    return 128 + left_by_;
  }
  if (lost && ask_.step->state == StepState::kEnded)  // the tasks' own words will not come
    for (std::uint32_t rank = 0; rank < tasks_; ++rank) output_.exited(rank, recorded_exit(rank));
  finish(ended);
  if (output_.all_exited())
    return exit_code();
  voice_.error(format("StepId={}.{}: the end of {} is not known", ask_.job.value, ask_.step->number, ranks_text(true)));
  return std::max(1, exit_code());
}

}  // namespace lockstep::slurm
