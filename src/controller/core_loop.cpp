#include "controller/core_loop.h"

#include <algorithm>

#include "base/thread.h"
#include "controller/poison.h"

namespace lockstep {

namespace {

constexpr Duration kTickRetry = millis(500);  // after a tick that could not be stored
constexpr Duration kBatchCpu = millis(8);     // of a batch's commands; encoding and publishing them costs about as much
constexpr Duration kWallJump = seconds(1);    // larger differences are written down

}  // namespace

CoreLoop::CoreLoop(std::unique_ptr<Engine> engine, NodeDeskSettings desk, NodeDesk::Composer composer,
                   const ClusterClock& clock, Outputs outputs, TurnWatch& watch)
    : engine_(std::move(engine)),
      desk_(desk, std::move(composer), clock.now()),
      clock_(clock),
      outputs_(std::move(outputs)),
      watch_(watch),
      meter_(clock) {
  watch_engine();
  engine_->add_reader([this](const std::shared_ptr<const Engine::Batch>& batch) {
    outbox_.push_back([this, batch] {
      const AtWorkFor at_work(batch->commands);
      outputs_.on_batch(batch);
    });
    desk_.committed(engine_->state(), batch->changes, batch->actions, clock_.now());
  });
  engine_->set_aside([this](Task work, Task done) { run_aside(std::move(work), std::move(done)); });
}

CoreLoop::~CoreLoop() { stop(); }

void CoreLoop::start() {
  engine_->ready();
  thread_ = start_thread_or_exit("the core", [this] { run(); });
}

void CoreLoop::stop() {
  if (!thread_.joinable())
    return;
  inbox_.post([this] { stopping_ = true; });
  thread_.join();
  if (aside_.joinable())
    aside_.join();
}

void CoreLoop::run_aside(Task work, Task done) {
  if (aside_.joinable())
    aside_.join();  // it has posted its `done`, or nothing would be asked again
  const auto both = std::make_shared<std::pair<Task, Task>>(std::move(work), std::move(done));
  const auto run = [this, both] {
    both->first();
    inbox_.post(std::move(both->second));
  };
  if (auto thread = start_thread(run))
    aside_ = std::move(*thread);
  else
    run();  // slower for everybody, and better than never: the log would grow without end
}

// The first word behind the user: "u12 cancel 7 0" is a cancel.
std::string kind_of_fingerprint(const std::string& text) {
  const auto from = text.find(' ');
  if (from == std::string::npos)
    return "tick";
  const auto to = text.find(' ', from + 1);
  return text.substr(from + 1, to == std::string::npos ? to : to - from - 1);
}

void CoreLoop::watch_engine() {
  Engine::Watch watch;
  watch.cpu = [this] { return clock_.thread_cpu(); };
  watch.cpu_lately = [this] { return meter_.recent(); };
  watch.now = [this] { return clock_.now(); };
  watch.took = [this](const std::string& fingerprint, Duration cost) {
    if (cost > slowest_) {
      slowest_ = cost;
      slowest_what_ = fingerprint;
    }
    if (cost > kSlowTurn)
      watch_.took(TurnWatch::Loop::kCore, kind_of_fingerprint(fingerprint), fingerprint, cost, clock_.now());
  };
  watch.enough = kBatchCpu;
  engine_->set_watch(std::move(watch));
}

// A turn is slow by its slowest command, which is named already, or by many small things.
void CoreLoop::turn_ended() {
  const auto cost = meter_.turn();
  if (!cost)
    return;
  if (slowest_ <= kSlowTurn || *cost > slowest_ + kSlowTurn)
    watch_.took(TurnWatch::Loop::kCore, "turn", slowest_what_, *cost, clock_.now());
  slowest_ = {};
  slowest_what_.clear();
}

void CoreLoop::submit(Command command, std::vector<Blob> blobs, std::function<void(Result<Answer>)> done) {
  inbox_.post([this, command = std::move(command), blobs = std::move(blobs), done = std::move(done)]() mutable {
    engine_->submit(
        std::move(command),
        [this, done = std::move(done)](Result<Answer> answer) mutable {
          outbox_.push_back([done = std::move(done), answer = std::move(answer)] { done(answer); });
        },
        std::move(blobs));
  });
}

void CoreLoop::submit_all(std::vector<Submission> all, std::function<void(std::vector<Result<Answer>>)> done) {
  struct Gathering {
    std::vector<Result<Answer>> answers;
    std::size_t missing = 0;
    std::function<void(std::vector<Result<Answer>>)> done;
  };
  auto gathering = std::make_shared<Gathering>();
  gathering->answers.assign(all.size(), Error{});
  gathering->missing = all.size();
  gathering->done = std::move(done);
  inbox_.post([this, all = std::move(all), gathering]() mutable {
    for (std::size_t i = 0; i < all.size(); ++i)
      engine_->submit(
          std::move(all[i].command),
          [this, gathering, i](Result<Answer> answer) {
            gathering->answers[i] = std::move(answer);
            if (--gathering->missing == 0)
              outbox_.push_back([gathering] { gathering->done(std::move(gathering->answers)); });
          },
          std::move(all[i].blobs));
  });
}

void CoreLoop::submit_direct(Command command, Engine::Reply reply) {
  inbox_.post([this, command = std::move(command), reply = std::move(reply)]() mutable {
    engine_->submit(std::move(command), std::move(reply));
  });
}

void CoreLoop::connected(std::uint64_t link, std::string node_name, std::string certificate, std::string address) {
  inbox_.post([this, link, node_name = std::move(node_name), certificate = std::move(certificate),
               address = std::move(address)] { desk_.connected(link, node_name, clock_.now(), certificate, address); });
}

void CoreLoop::disconnected(std::uint64_t link) {
  inbox_.post([this, link] { desk_.disconnected(link, clock_.now()); });
}

void CoreLoop::receive(std::uint64_t link, FromAgent message) {
  inbox_.post([this, link, message = std::move(message)]() mutable {
    if (engine_->trusted())
      desk_.receive(link, std::move(message), engine_->state(), clock_.now());
  });
}

// While the log cannot be read renewals are not taken either: that is our own silence too.
void CoreLoop::beat() {
  inbox_.post([this] {
    if (engine_->trusted())
      desk_.beat(clock_.now());
  });
}

void CoreLoop::fenced(NodeId node, std::string proof) {
  inbox_.post([this, node, proof = std::move(proof)]() mutable { desk_.fenced(node, std::move(proof)); });
}

Instant CoreLoop::next_timer() const {
  if (!engine_->trusted())
    return tick_not_before_;
  Instant next = desk_.next_timer();
  if (!tick_in_hand_)
    next = std::min(next, std::max(engine_->state().next_timer(), tick_not_before_));
  return next;
}

void CoreLoop::timers(Instant now) {
  if (!engine_->trusted()) {
    // A tick makes the engine try to load its state again.
    if (!tick_in_hand_ && tick_not_before_ <= now) {
      tick_in_hand_ = true;
      engine_->submit(own(Tick{}), [this](Result<Answer>) {
        tick_in_hand_ = false;
        tick_not_before_ = clock_.now() + kTickRetry;
      });
    }
    return;
  }
  if (desk_.next_timer() <= now)
    desk_.tick(engine_->state(), now);
  if (!tick_in_hand_ && engine_->state().next_timer() <= now && tick_not_before_ <= now) {
    tick_in_hand_ = true;
    engine_->submit(own(Tick{}), [this](Result<Answer> answer) {
      tick_in_hand_ = false;
      if (!answer.ok())
        tick_not_before_ = clock_.now() + kTickRetry;
    });
  }
  if (engine_->has_work() && !offset_in_hand_ && engine_->state().tables().cluster) {
    const Duration offset = clock_.wall_offset();
    const Duration known = engine_->state().tables().cluster->wall_offset;
    if (std::max(offset - known, known - offset) > kWallJump) {
      offset_in_hand_ = true;
      engine_->submit(own(SetWallOffset{offset}), [this](Result<Answer>) { offset_in_hand_ = false; });
    }
  }
}

void CoreLoop::take_desk_commands() {
  for (auto& [command, token] : desk_.take_commands())
    engine_->submit(std::move(command), [this, token = token](Result<Answer> answer) {
      desk_.answered(token, answer, engine_->state(), clock_.now());
    });
  for (const auto& [node, silence] : desk_.take_fence_requests())
    if (const Node* record = engine_->state().tables().node(node); record && outputs_.ask_fence_hook)
      outputs_.ask_fence_hook(node, record->meta.name, silence);
}

// One batch: what came meanwhile is looked at before the next one, so a long command that goes on in parts stops
// nobody.
void CoreLoop::run_batch() {
  take_desk_commands();
  if (!engine_->has_work()) {
    if (engine_->has_upkeep())
      engine_->upkeep();
    return;
  }
  engine_->run_batch(clock_.now());
  engine_->settle();  // nothing else is done meanwhile: all of it reads the state
  take_desk_commands();
}

void CoreLoop::flush() {
  if (auto messages = desk_.take_messages(); !messages.empty())
    outbox_.push_back([this, messages = std::move(messages)]() mutable { outputs_.on_messages(std::move(messages)); });
  if (std::string trouble = engine_->trouble(); trouble != told_trouble_) {
    told_trouble_ = trouble;
    outbox_.push_back([this, trouble = std::move(trouble)] { outputs_.on_mode(trouble); });
  }
  if (!engine_->deposed().empty() && !std::exchange(told_deposed_, true))
    outbox_.push_back([this, why = engine_->deposed()] { outputs_.on_deposed(why); });
  if (!outbox_.empty())
    outputs_.to_io(std::exchange(outbox_, {}));
}

void CoreLoop::run() {
  while (!stopping_) {
    const Instant next = engine_->has_work() || engine_->has_upkeep() ? Instant{} : next_timer();
    const Instant now = clock_.now();
    auto tasks = inbox_.take(next >= kNever ? kForever : std::max(Duration{}, next - now));
    for (auto& task : tasks) task();
    timers(clock_.now());
    run_batch();
    flush();
    turn_ended();
  }
  while (engine_->has_work()) {
    run_batch();
    flush();
  }
}

}  // namespace lockstep
