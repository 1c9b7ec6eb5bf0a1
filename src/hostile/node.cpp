#include "hostile/node.h"

#include "base/text.h"
#include "wire/codec.h"
#include "wire/random_value.h"

namespace lockstep::hostile {

namespace {

constexpr std::size_t kRemembered = 64;

}  // namespace

void HostileNode::connect(std::shared_ptr<Wire> wire) {
  wire_ = std::move(wire);
  reader_ = {};
  attempts_.clear();
  steps_.clear();
  wire_->sent = [this](std::string_view bytes) { hear(bytes); };
  Hello hello;
  hello.facts.meta.name = name_;
  hello.facts.boot_id = rng_.chance(0.9) ? "boot" : format("boot{}", rng_.below(5));
  hello.facts.cores = 8;
  hello.facts.memory_mb = 16'000;
  hello.facts.address = "127.0.0.1";
  if (rng_.chance(0.05))
    hello = wire::random_value<Hello>(rng_);
  if (rng_.chance(0.5))
    hello.facts.meta.name = name_;
  if (rng_.chance(0.03))
    hello.facts.features.assign(200'000, "feature");
  say(hello);
}

void HostileNode::frame(std::uint8_t type, std::uint64_t stream, std::string_view payload) {
  if (!wire_ || wire_->gone || !wire_->data)
    return;
  const std::string bytes = encode_frame(type, stream, payload);
  const auto data = wire_->data;  // may be taken away while it is heard
  data(bytes);
}

void HostileNode::say(const FromAgent& message) {
  frame(static_cast<std::uint8_t>(LinkFrame::kMessage), 0, encode(message));
}

void HostileNode::report(JobId job, AttemptNo attempt, ReportBody body) {
  Report out{rng_.chance(0.95) ? next_report_++ : rng_.next(), job, attempt, std::move(body)};
  say(out);
  if (rng_.chance(0.1))
    say(out);
}

void HostileNode::hear(std::string_view bytes) {
  std::vector<ToAgent> told;
  const auto fed = reader_.feed(bytes, [&](Frame f) {
    if (f.type == static_cast<std::uint8_t>(LinkFrame::kMessage))
      if (auto message = decode_to_agent(f.payload); message.ok())
        told.push_back(std::move(*message));
  });
  CHECK(fed.ok(), "the controller sends whole frames");
  for (const auto& message : told) answer(message);
}

void HostileNode::answer(const ToAgent& message) {
  if (const auto* launch = std::get_if<LaunchAttempt>(&message)) {
    attempts_.push_back(*launch);
    if (attempts_.size() > kRemembered)
      attempts_.erase(attempts_.begin());
    if (rng_.chance(0.1))
      report(launch->job, launch->attempt, LaunchFailed{rng_.chance(0.5) ? "no" : std::string(300'000, 'x')});
    else
      report(launch->job, launch->attempt, AttemptStarted{});
  } else if (const auto* step = std::get_if<LaunchStep>(&message)) {
    steps_.push_back(*step);
    if (steps_.size() > kRemembered)
      steps_.erase(steps_.begin());
    report(step->job, step->attempt, StepStarted{step->step});
  } else if (const auto* stop = std::get_if<StopWork>(&message)) {
    if (!stop->part && rng_.chance(0.8))
      report(stop->job, stop->attempt, MemberStopped{});
  } else if (const auto* pause = std::get_if<PauseWork>(&message)) {
    if (rng_.chance(0.8))
      report(pause->job, pause->attempt, MemberPaused{pause->paused, pause->number});
  }
}

// Says one thing that an agent should not say, or should not say now.
void HostileNode::act(Grammar& grammar) {
  switch (rng_.below(10)) {
    case 0: return say(Renew{static_cast<std::int64_t>(rng_.next()), {}});
    case 1: return say(wire::random_value<Renew>(rng_));
    case 2: return say(wire::random_value<Report>(rng_));
    case 3:
      if (const LaunchAttempt* a = any_of(attempts_))
        report(a->job, a->attempt, ScriptEnded{wire::random_value<ExitStatus>(rng_)});
      return;
    case 4:
      if (const LaunchAttempt* a = any_of(attempts_))
        report(a->job, a->attempt, MemberStopped{rng_.chance(0.2), rng_.chance(0.2)});
      return;
    case 5:
    case 6:
      if (const LaunchStep* s = any_of(steps_))
        report(s->job, s->attempt, rng_.chance(0.5) ? wire::random_value<StepEnded>(rng_) : StepEnded{s->step, {}});
      return;
    case 7:
      return frame(static_cast<std::uint8_t>(rng_.below(12)), rng_.chance(0.5) ? rng_.below(40) : rng_.next(),
                   rng_.chance(0.5) ? grammar.size_ladder() : grammar.spoilt(R"({"renew":{"sent_boot_us":1}})"));
    case 8:
      if (!attempts_.empty())
        report(attempts_.back().job, attempts_.back().attempt, wire::random_value<ReportBody>(rng_));
      return;
    default:
      if (rng_.chance(0.1))
        hang_up();
  }
}

void HostileNode::hang_up() {
  if (!wire_)
    return;
  if (const auto closed = wire_->closed)
    closed();
  wire_ = nullptr;
}

}  // namespace lockstep::hostile
