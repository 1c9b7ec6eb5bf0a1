#include "controller/step_io.h"

#include <algorithm>
#include <deque>

#include "base/text.h"
#include "wire/frame.h"
#include "wire/io_attach.h"

namespace lockstep {

namespace {

constexpr Duration kAttachAgain = millis(100);   // the shim was not there yet
constexpr Duration kAttachWithin = seconds(30);  // a client that says nothing holds a stream for nothing
constexpr std::size_t kRouteMembers = 10'000;    // of one frame
constexpr std::size_t kInputMax = 4 << 20;       // of input under way to one node; then the client waits

std::uint64_t offset_of(std::string_view payload, std::size_t at) {
  std::uint64_t n = 0;
  for (std::size_t i = at; i < at + 8 && i < payload.size(); ++i) n = (n << 8) | static_cast<unsigned char>(payload[i]);
  return n;
}

}  // namespace

struct StepIo::Session : std::enable_shared_from_this<StepIo::Session> {
  struct Member {  // one node of the step
    std::string name;
    std::vector<std::uint32_t> ranks;
    std::unique_ptr<Stream> stream;
    FrameReader reader{step_frame_bound};
    std::string held;  // the client's frames for it, input apart, while there is no stream
    // Input that no rank has confirmed yet: sent again when the node is attached anew.
    struct Input {
      std::uint64_t stream = 0, end = 0;
      bool is_eof = false;
      std::shared_ptr<const std::string> bytes;  // of the whole frame: what goes to all ranks is kept once
    };
    std::deque<Input> input;
    std::size_t input_bytes = 0;
    std::map<std::uint32_t, std::uint64_t> taken;  // by rank: how far its input has been given to it
    std::size_t exited = 0;
    bool gone = false;    // told as such
    bool direct = false;  // the agent we serve reaches it without us
    TimerId again = 0;
    bool done() const { return gone || exited == ranks.size(); }  // nothing more is expected of it
    bool has_taken(const Input& in) const {
      const auto reached = [&](std::uint32_t rank) {
        const auto it = taken.find(rank);
        return it != taken.end() && it->second >= in.end;
      };
      return in.stream == kAllRanks ? std::all_of(ranks.begin(), ranks.end(), reached)
                                    : reached(static_cast<std::uint32_t>(in.stream));
    }
    void confirm(std::uint32_t rank, std::uint64_t upto) {
      auto& mark = taken[rank];
      mark = std::max(mark, upto);
      while (!input.empty() && !input.front().is_eof && has_taken(input.front())) {
        input_bytes -= input.front().bytes->size();
        input.pop_front();
      }
    }
  };

  StepIo& owner;
  std::uint64_t id;
  StepKey key;
  Ask ask;
  bool routed = false;  // the first kRoute was sent
  std::unique_ptr<Stream> client;
  FrameReader reader{step_frame_bound};
  FairHold memory;  // of a frame of the client that is not whole yet
  std::shared_ptr<void> keep;
  IoAttach safe;    // what the client has confirmed: shims forget up to here
  IoAttach passed;  // what it was sent: the rest of what a shim repeats after a new attach
  bool attached = false;
  bool client_paused = false;
  bool over = false;     // removed; a callback may still be running
  TimerId patience = 0;  // for the client's first frame
  std::map<NodeId, Member> members;
  std::map<std::uint32_t, NodeId> node_of;  // by rank
  std::set<std::uint32_t> started, exited;  // ranks told

  Session(StepIo& o, std::uint64_t i, StepKey k, Ask a, std::unique_ptr<Stream> c, std::shared_ptr<void> p)
      : owner(o), id(i), key(k), ask(a), client(std::move(c)), keep(std::move(p)) {}

  void begin() {
    const std::weak_ptr<Session> weak = weak_from_this();
    client->on_close([weak] {
      if (const auto self = weak.lock(); self && !self->over)
        self->owner.remove(self->id);
    });
    client->on_drained([weak] {
      if (const auto self = weak.lock(); self && !self->over)
        for (auto& [node, member] : self->members)
          if (member.stream)
            member.stream->pause(false);
    });
    client->on_data([weak](std::string_view bytes) {
      const auto self = weak.lock();
      if (!self || self->over)
        return;
      const auto fed = self->reader.feed(bytes, [&](Frame frame) {
        if (!self->over)
          self->from_client(std::move(frame));
      });
      if (!self->over && (!fed.ok() || !self->memory.resize(self->reader.pending_bytes())))
        self->finish();
    });
    patience = owner.loop_.after(kAttachWithin, [weak] {
      const auto self = weak.lock();
      if (!self || self->over)
        return;
      self->patience = 0;
      if (!self->attached)
        self->finish();
    });
  }

  void from_client(Frame frame) {
    if (frame.type == static_cast<std::uint8_t>(IoFrame::kAttach)) {
      if (auto have = decode_io_attach(frame.payload); have.ok())
        safe = passed = std::move(*have);
      attached = true;
      look();
      return;
    }
    if (frame.type == static_cast<std::uint8_t>(IoFrame::kRelay)) {
      for (auto& [node, member] : members)
        if (member.name == frame.payload)
          member.direct = false;
      look();
      return;
    }
    if (frame.type == static_cast<std::uint8_t>(IoFrame::kOutputAck) && frame.payload.size() == 9 &&
        node_of.contains(static_cast<std::uint32_t>(frame.stream)))
      safe.advance(static_cast<std::uint32_t>(frame.stream), static_cast<unsigned char>(frame.payload[0]),
                   offset_of(frame.payload, 1));
    const auto bytes = std::make_shared<const std::string>(encode_frame(frame.type, frame.stream, frame.payload));
    if (frame.stream == kAllRanks) {
      for (auto& [node, member] : members) to_member(member, frame, bytes);
    } else if (const auto it = node_of.find(static_cast<std::uint32_t>(frame.stream)); it != node_of.end()) {
      to_member(members.at(it->second), frame, bytes);
    }
  }

  void to_member(Member& member, const Frame& frame, const std::shared_ptr<const std::string>& bytes) {
    const auto type = static_cast<IoFrame>(frame.type);
    const bool is_ack =
        type == IoFrame::kOutputAck || type == IoFrame::kPmi;  // both ends know what is lost of the second
    if (member.direct || member.gone || (member.done() && !is_ack))
      return;
    const bool is_input = type == IoFrame::kStdin || type == IoFrame::kStdinEof;
    if (is_input) {
      const std::size_t length = type == IoFrame::kStdin && frame.payload.size() > 8 ? frame.payload.size() - 8 : 0;
      member.input.push_back({frame.stream, offset_of(frame.payload, 0) + length, type == IoFrame::kStdinEof, bytes});
      member.input_bytes += bytes->size();
    }
    if (member.stream)
      member.stream->write(*bytes);
    else if (!is_input && !is_ack)  // the next attach says better what the client has
      member.held += *bytes;
    throttle();
  }

  // The client waits while any node has more input under way than it takes.
  void throttle() {
    const bool full = std::any_of(members.begin(), members.end(), [](const auto& entry) {
      const Member& m = entry.second;
      return !m.done() &&
             (m.input_bytes + m.held.size() > kInputMax || (m.stream && m.stream->unsent() > kStreamHighWater));
    });
    if (full != client_paused) {
      client_paused = full;
      client->pause(full);
    }
  }

  // Brings the session in line with the records and the links.
  void look() {
    if (!attached || over)
      return;
    const Tables& tables = owner.view_.tables();
    const Step* step = tables.step(key.first, key.second);
    StepRoute route;
    if (step)
      for (const auto& place : step->places) {
        if (members.contains(place.node))
          continue;
        const Node* node = tables.node(place.node);
        Member& member = members[place.node];
        member.name = node ? node->meta.name : format("node {}", place.node.value);
        member.ranks = place.ranks;
        for (const auto rank : place.ranks) node_of[rank] = place.node;
        const auto peer = ask.direct ? owner.links_.peer_address(member.name) : LinkHub::PeerAddress{};
        member.direct = peer.port != 0 && node && !node->address.empty();
        route.members.push_back(
            {member.name, node ? node->address : "", peer.port, peer.certificate, member.ranks, {}});
        if (member.direct)
          route.members.back().ticket = ticket(*step, member.name);
      }
    if (ask.direct && (!routed || !route.members.empty()))
      tell_route(std::move(route));
    routed = true;
    std::vector<NodeId> nodes;
    for (const auto& [node, member] : members) nodes.push_back(node);
    for (const NodeId node : nodes) {
      if (over)
        return;
      Member& member = members.at(node);
      if (member.done() || member.stream || member.direct)
        continue;
      if (lost_for_good(step, node) && !owner.links_.has(member.name))
        tell_gone(node);
      else
        open(node, step);
    }
    // A step that was cancelled before it ever had a place has nobody to say anything more.
    if (members.empty() && (!step || step->state == StepState::kEnded))
      finish();
  }

  // In parts that fit a frame, however many nodes there are.
  void tell_route(StepRoute route) {
    auto members = std::move(route.members);
    std::size_t told = 0;
    do {
      const std::size_t end = std::min(members.size(), told + kRouteMembers);
      route.members.assign(std::make_move_iterator(members.begin() + static_cast<std::ptrdiff_t>(told)),
                           std::make_move_iterator(members.begin() + static_cast<std::ptrdiff_t>(end)));
      client->write(encode_frame(static_cast<std::uint8_t>(IoFrame::kRoute), 0, encode(route)));
      told = end;
    } while (told < members.size());
  }

  StepTicket ticket(const Step& step, const std::string& node_name) const {
    const Tables& tables = owner.view_.tables();
    const Job* job = tables.job(step.job);
    const User* user = tables.user(job ? job->spec->user : step.user);
    return owner.tickets_.issue(step, user ? user->uid : 0, node_name, ask.verbs, owner.now_());
  }

  bool lost_for_good(const Step* step, NodeId node) const {
    if (!step || step->state == StepState::kEnded)
      return true;
    const auto place =
        std::find_if(step->places.begin(), step->places.end(), [&](const StepPlace& p) { return p.node == node; });
    const auto part = static_cast<std::size_t>(place - step->places.begin());
    return place == step->places.end() || (part < step->members.size() && step->members[part] == MemberState::kStopped);
  }

  void open(NodeId node, const Step* step) {
    Member& member = members.at(node);
    if (member.again)
      return;
    if (!step)
      return tell_gone(node);
    auto stream = owner.links_.open(member.name, {ticket(*step, member.name), {}, {}});
    if (!stream)
      return;  // welcomed() comes back to it
    member.stream = std::move(stream);
    member.reader = FrameReader(step_frame_bound);
    const std::weak_ptr<Session> weak = weak_from_this();
    member.stream->on_drained([weak] {
      if (const auto self = weak.lock(); self && !self->over)
        self->throttle();
    });
    member.stream->on_close([weak, node] {
      if (const auto self = weak.lock(); self && !self->over)
        self->closed(node);
    });
    member.stream->write(
        encode_frame(static_cast<std::uint8_t>(IoFrame::kAttach), kAllRanks, encode(safe.only(member.ranks))));
    for (const auto& input : member.input) member.stream->write(*input.bytes);
    if (!member.held.empty())
      member.stream->write(std::exchange(member.held, {}));
    throttle();
    member.stream->on_data([weak, node](std::string_view bytes) {
      const auto self = weak.lock();
      if (!self || self->over)
        return;
      const auto fed = self->members.at(node).reader.feed(bytes, [&](Frame frame) {
        if (!self->over)
          self->from_node(node, std::move(frame));
      });
      if (!fed.ok() && !self->over)
        self->closed(node);
    });
  }

  void from_node(NodeId node, Frame frame) {
    Member& member = members.at(node);
    const auto rank = static_cast<std::uint32_t>(frame.stream);
    if (is_of_rank(static_cast<IoFrame>(frame.type)) && !speaks_for(node, frame.stream))
      return;
    switch (static_cast<IoFrame>(frame.type)) {
      case IoFrame::kOutput:
        if (!passed.cut(rank, frame.payload))
          return;
        break;
      case IoFrame::kStdinAck:
        member.confirm(rank, offset_of(frame.payload, 0));
        throttle();
        break;
      case IoFrame::kStarted:
        if (!started.insert(rank).second)
          return;
        break;
      case IoFrame::kExited:
        if (!exited.insert(rank).second)
          return;
        ++member.exited;
        throttle();
        break;
      default: break;
    }
    client->write(encode_frame(frame.type, frame.stream, frame.payload));
    if (client->unsent() > kStreamHighWater && member.stream)
      member.stream->pause(true);
  }

  // A node speaks for its own ranks, whatever it says.
  bool speaks_for(NodeId node, std::uint64_t rank) const {
    const auto it = rank <= UINT32_MAX ? node_of.find(static_cast<std::uint32_t>(rank)) : node_of.end();
    return it != node_of.end() && it->second == node;
  }
  static bool is_of_rank(IoFrame type) {
    return type == IoFrame::kOutput || type == IoFrame::kOutputEof || type == IoFrame::kStarted ||
           type == IoFrame::kExited || type == IoFrame::kStdinAck || type == IoFrame::kPmi;
  }

  // The node's stream has ended. Before every rank's exit was told that means: not there yet, or no longer.
  void closed(NodeId node) {
    Member& member = members.at(node);
    // Destroyed later: this may be its own callback.
    if (member.stream)
      owner.loop_.post([stream = std::shared_ptr<Stream>(std::move(member.stream))] {});
    if (member.done())
      return;
    const Step* step = owner.view_.tables().step(key.first, key.second);
    if (lost_for_good(step, node)) {
      tell_gone(node);
      return;
    }
    if (!owner.links_.has(member.name))
      return;
    const std::weak_ptr<Session> weak = weak_from_this();
    member.again = owner.loop_.after(kAttachAgain, [weak, node] {
      const auto self = weak.lock();
      if (!self || self->over)
        return;
      self->members.at(node).again = 0;
      self->look();
    });
  }

  void tell_gone(NodeId node) {
    Member& member = members.at(node);
    member.gone = true;
    client->write(encode_frame(static_cast<std::uint8_t>(IoFrame::kNodeGone),
                               member.ranks.empty() ? 0 : member.ranks.front(), member.name));
  }

  void finish() {
    client->close();
    owner.remove(id);
  }
};

StepIo::~StepIo() {
  while (!sessions_.empty()) remove(sessions_.begin()->first);
}

void StepIo::attach(std::unique_ptr<Stream> client, StepKey step, Ask ask, std::shared_ptr<void> keep,
                    std::string caller) {
  const std::uint64_t id = next_++;
  auto session = std::make_shared<Session>(*this, id, step, ask, std::move(client), std::move(keep));
  session->memory = FairHold(memory_, std::move(caller));
  sessions_[id] = session;
  by_job_[step.first].insert(id);
  session->begin();
}

void StepIo::remove(std::uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end())
    return;
  const std::shared_ptr<Session> session = it->second;
  sessions_.erase(it);
  auto& of_job = by_job_[session->key.first];
  of_job.erase(id);
  if (of_job.empty())
    by_job_.erase(session->key.first);
  session->over = true;
  session->keep.reset();
  session->memory = {};
  if (session->patience)
    loop_.cancel(session->patience);
  for (auto& [node, member] : session->members)
    if (member.again)
      loop_.cancel(member.again);
  loop_.post([session] {});  // its streams may be in the middle of a callback
}

void StepIo::changed(const std::set<JobId>& jobs) {
  std::vector<std::shared_ptr<Session>> touched;
  for (const JobId job : jobs)
    if (const auto it = by_job_.find(job); it != by_job_.end())
      for (const auto id : it->second) touched.push_back(sessions_.at(id));
  for (const auto& session : touched) session->look();
}

void StepIo::welcomed(const std::string& node_name) {
  std::vector<std::shared_ptr<Session>> touched;
  for (const auto& [id, session] : sessions_)
    if (std::any_of(session->members.begin(), session->members.end(),
                    [&](const auto& m) { return m.second.name == node_name && !m.second.stream; }))
      touched.push_back(session);
  for (const auto& session : touched) session->look();
}

}  // namespace lockstep
