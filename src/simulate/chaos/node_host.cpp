#include "simulate/chaos/node_host.h"

#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kJournalMax = 200;  // lines; a longer one is replaced by a short one
constexpr Duration kHookLimit = seconds(20);
constexpr Duration kSilenceMax = seconds(12);  // nothing heard for so long: the link is dead

}  // namespace

NodeHost::NodeHost(World& world, std::size_t index, bool has_fence_hook)
    : world_(world),
      index_(index),
      name_(format("n{}", index + 1)),
      has_fence_hook_(has_fence_hook),
      clock_(world.timeline, world.rng.between(-2000, 2000)),
      shims_(world.timeline, clock_, world.rng.fork(), index, world.processes) {}

Node NodeHost::facts() const {
  Node node;
  node.meta.name = name_;
  node.address = format("10.0.0.{}", index_ + 1);
  if (index_ % 7 != 3)
    node.task_range = format("10.{}.0.0/24", index_ % 200 + 1);
  node.hostname = name_;
  node.boot_id = boot_id_;
  node.version = "sim";
  node.cores = world_.settings.cores;
  node.memory_mb = 256'000;
  node.shortages = shortages_;
  node.has_fence_hook = has_fence_hook_;
  if (world_.settings.hooks)
    node.hooks_take = kHookLimit;
  if (index_ % 2 == 0)
    node.features.push_back("even");
  for (std::uint32_t d = 0; d < world_.settings.devices; ++d)
    node.devices.push_back({.type = "h100",
                            .uuid = format("GPU-{}-{}", index_, d),
                            .minor = d,
                            .memory_mb = 80'000,
                            .island = static_cast<std::int32_t>(d / 4),
                            .mig = index_ % 5 == 4 && d >= 6});
  return node;
}

void NodeHost::boot() {
  if (machine_up_)
    return;
  world_.note(format("{} boots", name_));
  machine_up_ = true;
  boot_id_ = format("{}-boot{}", name_, ++boots_);
  clock_.reboot();
  journal_.clear();
  journal_max_ = kJournalMax;
  start_agent();
}

void NodeHost::power_off() {
  if (!machine_up_)
    return;
  world_.note(format("{} loses power", name_));
  machine_up_ = false;
  kill_agent();
  shims_.machine_died();
}

void NodeHost::start_agent() {
  if (logic_ || !machine_up_)
    return;
  world_.note(format("{}: agent starts", name_));
  ++life_;
  waits_.end_life();
  alarm_ = kNever;
  stalled_until_ = {};
  const auto survivors = shims_.recover();
  AgentSettings settings{.renew_every = world_.settings.lease_term / 3};
  const bool hooks = world_.settings.hooks;
  settings.hooks = {.prolog = hooks, .epilog = hooks, .prolog_limit = kHookLimit, .epilog_limit = kHookLimit};
  logic_ = std::make_unique<AgentLogic>(settings, facts(), journal_, *survivors, clock_.boot());
  shims_.on_event([this, life = life_](const ShimEvent& event) {
    if (life == life_ && logic_)
      shim_event(event);
  });
  dial();
  wake();
}

void NodeHost::run_short(std::vector<Shortage> shortages) {
  shortages_ = std::move(shortages);
  if (!logic_ || put_off([this] { run_short(shortages_); }))
    return;
  logic_->set_facts(facts(), clock_.boot());
  wake();
}

void NodeHost::stall_agent(Duration time) {
  if (!logic_)
    return;
  world_.note(format("{}: agent stands still for {} ms", name_, time.millis()));
  stalled_until_ = std::max(stalled_until_, world_.timeline.now() + time);
}

bool NodeHost::put_off(std::function<void()> task) {
  if (!waits_.waits(world_.timeline.now(), stalled_until_))
    return false;
  waits_.put_off(world_.timeline, stalled_until_, std::move(task));
  return true;
}

void NodeHost::shim_event(const ShimEvent& event) {
  if (!logic_ || put_off([this, event] { shim_event(event); }))
    return;
  logic_->shim_event(event, clock_.boot());
  wake();
}

void NodeHost::kill_agent() {
  if (!logic_)
    return;
  world_.note(format("{}: agent dies", name_));
  ++life_;
  waits_.end_life();
  logic_.reset();
  shims_.on_event(nullptr);
  // A killed process resets its connection; a machine without power says nothing.
  if (link_)
    world_.network.close_from_agent(link_, machine_up_ ? millis(5) : world_.up_to(seconds(30)));
  link_ = 0;
}

void NodeHost::dial() {
  if (!logic_ || link_ || put_off([this] { dial(); }))
    return;
  link_ = world_.network.open(index_);
  if (!link_) {
    world_.timeline.after(millis(300) + world_.up_to(seconds(1)), [this, life = life_] {
      if (life == life_)
        dial();
    });
    return;
  }
  heard_ = world_.timeline.now();
  logic_->connected(clock_.boot());
  watch_link();
  wake();
}

void NodeHost::watch_link() {
  world_.timeline.at(heard_ + kSilenceMax, [this, life = life_, link = link_] {
    if (life != life_ || link != link_ || put_off([this] { watch_link(); }))
      return;
    if (world_.timeline.now() - heard_ >= kSilenceMax)
      hang_up();
    else
      watch_link();
  });
}

void NodeHost::hang_up() {
  world_.network.close_from_agent(link_, world_.up_to(seconds(1)));
  link_closed(link_);
}

void NodeHost::link_closed(LinkId link) {
  if (link != link_ || !logic_ || put_off([this, link] { link_closed(link); }))
    return;
  link_ = 0;
  logic_->disconnected(clock_.boot());
  wake();
  world_.timeline.after(world_.up_to(seconds(1)), [this, life = life_] {
    if (life == life_)
      dial();
  });
}

void NodeHost::received(LinkId link, const ToAgent& message) {
  if (link != link_ || !logic_ || put_off([this, link, message] { received(link, message); }))
    return;
  heard_ = world_.timeline.now();
  logic_->receive(message, clock_.boot());
  wake();
  if (std::holds_alternative<Refused>(message)) {
    world_.note(format("{}: refused: {}", name_, std::get<Refused>(message).why));
    hang_up();
  }
}

void NodeHost::wake() {
  world_.timeline.after(micros(0), [this, life = life_] {
    if (life == life_)
      pump();
  });
}

void NodeHost::obey(AgentLogic::ShimOrder& order) {
  using enum AgentLogic::ShimOrder::What;
  switch (order.what) {
    case kStart: shims_.start(order.start); break;
    case kSignal: shims_.signal(order.key, order.signal, order.reach); break;
    case kStop: shims_.stop(order.key, order.kill_wait, order.why); break;
    case kForget: shims_.forget(order.key); break;
    case kNotice: shims_.notice(order.key, order.kill_wait, order.why); break;
    case kPause:
    case kResume: shims_.pause(order.key, order.what == kPause, order.number); break;
  }
}

void NodeHost::keep_journal() {
  for (std::string& line : logic_->take_journal()) journal_.push_back(std::move(line));
  if (journal_.size() > journal_max_) {
    journal_ = logic_->journal_snapshot();
    journal_max_ = std::max(kJournalMax, 2 * journal_.size());
  }
}

// Lets the agent's logic go on: its journal is kept, then its orders go to the shims and its messages to the
// controller.
void NodeHost::pump() {
  if (!logic_ || put_off([this] { pump(); }))
    return;
  if (logic_->next_timer() <= clock_.boot())
    logic_->tick(clock_.boot());
  keep_journal();
  if (dies_in_pump > 0 && world_.rng.chance(dies_in_pump)) {
    kill_agent();
    world_.timeline.after(world_.up_to(seconds(5)), [this] { start_agent(); });
    return;
  }
  shims_.write_lease(logic_->renewed());
  for (AgentLogic::ShimOrder& order : logic_->take_orders()) obey(order);
  for (FromAgent& message : logic_->take_messages())
    if (link_)
      world_.network.send_up(link_, std::move(message));
  const Instant due = clock_.true_time(logic_->next_timer());
  const Instant when = std::max(due, world_.timeline.now() + micros(100));
  if (when >= std::min(alarm_, kNever))
    return;
  alarm_ = when;
  world_.timeline.at(when, [this, life = life_, when] {
    if (life != life_ || alarm_ != when)
      return;
    alarm_ = kNever;
    pump();
  });
}

}  // namespace lockstep::sim
