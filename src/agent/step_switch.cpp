#include "agent/step_switch.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "wire/io_attach.h"

namespace lockstep {
namespace {

constexpr std::size_t kHeldMax = 8 << 20;  // a client's frames that wait for a way; clients keep far less under way

std::string bytes_of(const Frame& frame) { return encode_frame(frame.type, frame.stream, frame.payload); }
bool is(const Frame& frame, IoFrame type) { return frame.type == static_cast<std::uint8_t>(type); }

}  // namespace

std::vector<StepHop> first_hops(std::vector<StepMember> members) {
  std::vector<StepHop> hops;
  const std::size_t count = std::min(members.size(), StepSwitch::kFanOut);
  std::size_t from = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t to = members.size() * (i + 1) / count;
    StepHop hop{std::move(members[from]), {}};
    for (std::size_t j = from + 1; j < to; ++j) hop.below.push_back(std::move(members[j]));
    hops.push_back(std::move(hop));
    from = to;
  }
  CHECK(from == members.size() && hops.size() <= StepSwitch::kFanOut,
        format("{} of {} members in {} hops", from, members.size(), hops.size()));
  return hops;
}

struct StepSwitch::Session : std::enable_shared_from_this<StepSwitch::Session> {
  // A way down: to the shim here, or to another agent and whatever lies below it.
  struct Branch {
    StepMember member;
    std::vector<StepMember> below;
    std::set<std::uint32_t> ranks, exited;
    std::unique_ptr<Stream> stream;  // null until it is open, or when it has ended
    FrameReader reader{step_frame_bound};
    std::vector<Frame> held;  // until then
    std::size_t held_bytes = 0;
    bool opening = false;
  };

  StepSwitch& owner;
  std::uint64_t id;
  std::unique_ptr<Stream> up, control;  // control: to the controller, for a client of ours
  FrameReader up_reader{step_frame_bound}, control_reader;
  std::vector<std::unique_ptr<Branch>> branches;
  std::map<std::uint32_t, Branch*> branch_of;  // by rank; the others are the controller's
  std::vector<Frame> early;                    // before the way is known
  std::size_t early_bytes = 0;
  IoAttach have;
  bool attached = false, routed = false, over = false;

  Session(StepSwitch& o, std::uint64_t i, std::unique_ptr<Stream> u, std::unique_ptr<Stream> c)
      : owner(o), id(i), up(std::move(u)), control(std::move(c)) {
    CHECK(up);
  }

  // Wraps a callback so that it does nothing once the session is over, and keeps the session while it runs.
  template <class F>
  auto mine(F f) {
    return [weak = weak_from_this(), f = std::move(f)](auto&&... arguments) {
      if (const auto self = weak.lock(); self && !self->over)
        f(*self, std::forward<decltype(arguments)>(arguments)...);
    };
  }
  template <class F>
  void read(FrameReader& reader, std::string_view bytes, F&& take) {
    const auto fed = reader.feed(bytes, [&](Frame frame) {
      if (!over)
        take(std::move(frame));
    });
    if (!fed.ok() && !over)
      end();
  }

  void begin() {
    up->on_close(mine([](Session& s) { s.end(); }));
    up->on_drained(mine([](Session& s) { s.pause_down(false); }));
    if (control) {
      control->on_close(mine([](Session& s) { s.end(); }));
      control->on_drained(mine([](Session& s) { s.throttle(); }));
      control->on_data(mine([](Session& s, std::string_view bytes) {
        s.read(s.control_reader, bytes, [&s](Frame frame) { s.from_control(std::move(frame)); });
      }));
    }
    up->on_data(mine([](Session& s, std::string_view bytes) {
      s.read(s.up_reader, bytes, [&s](Frame frame) { s.from_up(std::move(frame)); });
      if (!s.over)
        s.throttle();
    }));
  }

  // Everything ends; what is queued goes out first.
  void end() {
    up->close();
    if (control)
      control->close();
    for (const auto& branch : branches)
      if (branch->stream)
        branch->stream->close();
    owner.remove(id);
  }

  void from_up(Frame frame) {
    if (is(frame, IoFrame::kAttach)) {
      if (auto known = decode_io_attach(frame.payload); known.ok())
        have = std::move(*known);
      const bool first = !std::exchange(attached, true);
      if (control)
        control->write(bytes_of(frame));
      else if (first)
        for (const auto& branch : branches) open(*branch);
      return;
    }
    if (control && !routed) {
      early_bytes += frame.payload.size();
      early.push_back(std::move(frame));
      return;
    }
    dispatch(std::move(frame));
  }

  void dispatch(Frame frame) {
    if (frame.stream != kAllRanks) {
      const auto it = branch_of.find(static_cast<std::uint32_t>(frame.stream));
      if (it != branch_of.end())
        to_branch(*it->second, std::move(frame));
      else if (control)
        control->write(bytes_of(frame));
      return;
    }
    for (const auto& branch : branches) to_branch(*branch, frame);
    if (control)
      control->write(bytes_of(frame));
  }

  static void to_branch(Branch& branch, Frame frame) {
    if (branch.stream) {
      branch.stream->write(bytes_of(frame));
    } else if (branch.opening) {
      branch.held_bytes += frame.payload.size();
      branch.held.push_back(std::move(frame));
    }
  }

  // The one above waits while any way is full.
  void throttle() {
    const bool full =
        early_bytes > kHeldMax || (control && control->unsent() > kStreamHighWater) ||
        std::any_of(branches.begin(), branches.end(), [](const auto& branch) {
          return branch->held_bytes > kHeldMax || (branch->stream && branch->stream->unsent() > kStreamHighWater);
        });
    up->pause(full);
  }
  void pause_down(bool paused) {
    if (control)
      control->pause(paused);
    for (const auto& branch : branches)
      if (branch->stream)
        branch->stream->pause(paused);
  }
  void to_up(const Frame& frame) {
    up->write(bytes_of(frame));
    if (up->unsent() > kStreamHighWater)
      pause_down(true);
  }

  void from_control(Frame frame) {
    if (!is(frame, IoFrame::kRoute)) {
      to_up(frame);
      if (!routed)  // a controller that gives no routes passes everything on itself
        flush_early();
      return;
    }
    auto route = decode_step_route(frame.payload);
    if (!route.ok())
      return end();
    std::vector<StepMember> others;
    for (auto& member : route->members) {
      if (member.port == 0)
        continue;  // the controller's
      if (owner.peers_.shunned(member.node))
        relay(member.node);
      else if (member.node == owner.node_name_)
        add(std::move(member), {});
      else
        others.push_back(std::move(member));
    }
    for (auto& hop : first_hops(std::move(others))) add(std::move(hop.member), std::move(hop.below));
    flush_early();
  }

  void flush_early() {
    routed = true;
    for (auto& frame : std::exchange(early, {})) dispatch(std::move(frame));
    early_bytes = 0;
  }

  void relay(const std::string& node) {
    CHECK(control);
    control->write(encode_frame(static_cast<std::uint8_t>(IoFrame::kRelay), 0, node));
  }

  void add(StepMember member, std::vector<StepMember> below) {
    auto branch = std::make_unique<Branch>();
    branch->ranks.insert(member.ranks.begin(), member.ranks.end());
    for (const auto& lower : below) branch->ranks.insert(lower.ranks.begin(), lower.ranks.end());
    branch->member = std::move(member);
    branch->below = std::move(below);
    for (const auto rank : branch->ranks) branch_of[rank] = branch.get();
    branches.push_back(std::move(branch));
    if (attached)
      open(*branches.back());
  }

  void open(Branch& branch) {
    CHECK(!branch.opening && !branch.stream, branch.member.node);
    branch.opening = true;
    auto done = mine([&branch](Session& s, std::unique_ptr<Stream> stream) { s.opened(branch, std::move(stream)); });
    if (branch.member.node == owner.node_name_)
      return owner.here_(branch.member.ticket, done);
    owner.peers_.open(branch.member, {branch.member.ticket, branch.member.ranks, branch.below}, done);
  }

  void opened(Branch& branch, std::unique_ptr<Stream> stream) {
    CHECK(branch.opening && !branch.stream, branch.member.node);
    branch.opening = false;
    if (!stream)
      return unreachable(branch);
    branch.stream = std::move(stream);
    branch.stream->on_drained(mine([](Session& s) { s.throttle(); }));
    const std::vector<std::uint32_t> ranks(branch.ranks.begin(), branch.ranks.end());
    branch.stream->write(
        encode_frame(static_cast<std::uint8_t>(IoFrame::kAttach), kAllRanks, encode(have.only(ranks))));
    for (const auto& frame : std::exchange(branch.held, {})) branch.stream->write(bytes_of(frame));
    branch.held_bytes = 0;
    branch.stream->on_data(mine([&branch](Session& s, std::string_view bytes) {
      s.read(branch.reader, bytes, [&](const Frame& frame) { s.from_branch(branch, frame); });
    }));
    if (!over)  // its first words may have been its last; then its end is told now
      branch.stream->on_close(mine([&branch](Session& s) { s.ended(branch); }));
  }

  void from_branch(Branch& branch, const Frame& frame) {
    if (is(frame, IoFrame::kRelay))
      return relayed(branch, frame.payload);
    const auto it = branch_of.find(static_cast<std::uint32_t>(frame.stream));
    if (it == branch_of.end() || it->second != &branch)
      return;  // a node speaks for its own ranks and those below it
    if (is(frame, IoFrame::kExited))
      branch.exited.insert(static_cast<std::uint32_t>(frame.stream));
    to_up(frame);
  }

  // A node may say so of those below it, not of others.
  void relayed(const Branch& branch, const std::string& node) {
    const bool known = node == branch.member.node || std::any_of(branch.below.begin(), branch.below.end(),
                                                                 [&](const auto& lower) { return lower.node == node; });
    failed(known ? node : branch.member.node);
  }

  // It was never in use: the controller takes it over, with what waits for it.
  void unreachable(Branch& branch) {
    CHECK(!branch.stream && branch.exited.empty(), branch.member.node);
    if (!control)
      return failed(branch.member.node);
    relay(branch.member.node);
    for (const auto& lower : branch.below) relay(lower.node);
    for (const auto rank : branch.ranks) branch_of.erase(rank);
    for (auto& frame : std::exchange(branch.held, {})) {
      if (frame.stream != kAllRanks) {
        control->write(bytes_of(frame));
        continue;
      }
      for (const auto rank : branch.ranks) control->write(encode_frame(frame.type, rank, frame.payload));
    }
    branch.held_bytes = 0;
    branch.ranks.clear();
  }

  void ended(Branch& branch) {
    // Destroyed from the loop: this may be its own callback.
    owner.loop_.post([dead = std::shared_ptr<Stream>(std::move(branch.stream))] {});
    if (branch.exited.size() < branch.ranks.size())
      failed(branch.member.node);
  }

  void failed(const std::string& node) {
    if (control) {
      owner.peers_.shun(node);
      return end();
    }
    up->write(encode_frame(static_cast<std::uint8_t>(IoFrame::kRelay), 0, node));
    end();
  }
};

StepSwitch::StepSwitch(EventLoop& loop, Peers& peers, std::string node_name, Here here)
    : loop_(loop), peers_(peers), node_name_(std::move(node_name)), here_(std::move(here)) {}

StepSwitch::~StepSwitch() {
  while (!sessions_.empty()) remove(sessions_.begin()->first);
}

std::shared_ptr<StepSwitch::Session> StepSwitch::begin(std::unique_ptr<Stream> up, std::unique_ptr<Stream> control) {
  const std::uint64_t id = next_++;
  return sessions_[id] = std::make_shared<Session>(*this, id, std::move(up), std::move(control));
}

void StepSwitch::serve(std::unique_ptr<Stream> client, std::unique_ptr<Stream> controller) {
  begin(std::move(client), std::move(controller))->begin();
}

void StepSwitch::spread(StepOpen what, std::unique_ptr<Stream> above) {
  const auto session = begin(std::move(above), nullptr);
  StepMember here;
  here.node = node_name_;
  here.ranks = std::move(what.ranks);
  here.ticket = std::move(what.ticket);
  session->add(std::move(here), {});
  for (auto& hop : first_hops(std::move(what.below))) session->add(std::move(hop.member), std::move(hop.below));
  session->begin();
}

void StepSwitch::remove(std::uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end())
    return;
  const std::shared_ptr<Session> session = std::move(it->second);
  sessions_.erase(it);
  session->over = true;
  loop_.post([session] {});  // its streams may be in the middle of a callback
}

}  // namespace lockstep
