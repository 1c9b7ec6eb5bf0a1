#include "agent/peers.h"

#include "base/check.h"
#include "base/text.h"

namespace lockstep {

namespace {

// Beyond it the oldest are not kept: tickets from before a revocation are void, so a connection alone opens nothing.
constexpr std::size_t kRevokedMax = 10'000;

}  // namespace

Peers::Peers(EventLoop& loop, Dial dial, Open open, PeerSettings settings)
    : loop_(loop), dial_(std::move(dial)), open_(std::move(open)), settings_(settings) {
  CHECK(dial_ && open_);
  CHECK(settings_.shun > Duration{} && settings_.shun <= settings_.shun_max);
}

Peers::~Peers() {
  for (auto& [key, peer] : peers_) {
    if (peer.idle)
      loop_.cancel(peer.idle);
    if (peer.mux)
      peer.mux->silence();
  }
  for (const auto& accepted : accepted_) accepted.mux->silence();
  for (const auto& [node, shun] : shuns_)
    if (shun.timer)
      loop_.cancel(shun.timer);
}

bool Peers::counts(const std::string& node, const std::string& certificate) const {
  const auto it = revoked_.find(node);
  return it == revoked_.end() || it->second == certificate;
}

void Peers::accept(std::unique_ptr<Stream> connection, const std::string& node, const std::string& certificate) {
  if (accepted_.size() >= settings_.connections_max || !counts(node, certificate))
    return;
  const auto place = accepted_.insert(accepted_.end(), {nullptr, node, certificate});
  Mux::Handlers on;
  on.frame = [this, place](Frame frame) {
    if (frame.type != static_cast<std::uint8_t>(LinkFrame::kOpenStream))
      return;
    const std::shared_ptr<Mux> mux = place->mux;
    auto what = decode_step_open(frame.payload);
    if (!what.ok() || frame.stream % 2 != 1 || mux->has(frame.stream) || mux->streams() >= Mux::kStreamsMax)
      return mux->send(LinkFrame::kStreamClose, frame.stream, {});
    const std::uint32_t owner = what->ticket.uid;
    open_(std::move(*what), mux->stream(frame.stream, owner));
  };
  on.closed = [this, place](const std::string&) {
    // It is calling us: destroyed from the loop.
    loop_.post([dead = std::move(place->mux)] {});
    accepted_.erase(place);
  };
  place->mux = Mux::start(std::move(connection), std::move(on));
}

void Peers::revoke(const std::string& node, const std::string& certificate) {
  if (revoked_.size() >= kRevokedMax && !revoked_.contains(node))
    revoked_.erase(revoked_.begin());
  revoked_[node] = certificate;
  CHECK(revoked_.size() <= kRevokedMax);
  std::vector<std::shared_ptr<Mux>> closing;  // closing one may change both lists
  for (const Accepted& accepted : accepted_)
    if (accepted.node == node && accepted.certificate != certificate)
      closing.push_back(accepted.mux);
  for (const auto& [key, peer] : peers_)
    if (peer.node == node && peer.certificate != certificate && peer.mux)
      closing.push_back(peer.mux);
  for (const auto& mux : closing) mux->close("its certificate counts no more");
}

void Peers::open(const StepMember& whom, const StepOpen& what, Opened done) {
  if (shunned(whom.node) || whom.port == 0 || !counts(whom.node, whom.certificate))
    return done(nullptr);
  const std::string key = format("{} {} {} {}", whom.node, whom.address, whom.port, whom.certificate);
  const auto [it, fresh] = peers_.try_emplace(key);
  Peer& peer = it->second;
  peer.node = whom.node;
  peer.certificate = whom.certificate;
  if (peer.mux)
    return begin(peer, what, done);
  peer.waiting.emplace_back(what, std::move(done));
  if (!fresh)
    return;
  dial_(whom,
        [this, key, node = whom.node, alive = std::weak_ptr<int>(alive_)](Result<std::unique_ptr<Stream>> connection) {
          if (!alive.expired())
            dialed(key, node, std::move(connection));
        });
}

void Peers::begin(Peer& peer, const StepOpen& what, const Opened& done) {
  CHECK(peer.mux && peer.waiting.empty());
  const std::uint64_t id = peer.next_id;
  peer.next_id += 2;
  peer.mux->send(LinkFrame::kOpenStream, id, encode(what));
  done(peer.mux->stream(id, what.ticket.uid));
}

void Peers::dialed(const std::string& key, const std::string& node, Result<std::unique_ptr<Stream>> connection) {
  const auto it = peers_.find(key);
  if (it == peers_.end())
    return;
  CHECK(!it->second.mux, format("node {} is dialled twice", node));
  auto waiting = std::exchange(it->second.waiting, {});
  if (connection.ok() && !counts(it->second.node, it->second.certificate))
    connection = denied(format("the certificate of node {} counts no more", node));
  if (!connection.ok()) {
    peers_.erase(it);
    shun(node);
    for (auto& [what, done] : waiting) done(nullptr);
    return;
  }
  if (const auto shun = shuns_.find(node); shun != shuns_.end() && shun->second.timer == 0)
    shuns_.erase(shun);
  Mux::Handlers on;
  on.frame = [](const Frame&) {};  // the other side opens nothing here
  on.closed = [this, key](const std::string&) { drop(key); };
  it->second.mux = Mux::start(std::move(*connection), std::move(on));
  watch_idle(key);
  for (auto& [what, done] : waiting) {
    const auto still = peers_.find(key);  // a callback may have ended it
    if (still != peers_.end() && still->second.mux)
      begin(still->second, what, done);
    else
      done(nullptr);
  }
}

void Peers::watch_idle(const std::string& key) {
  Peer& peer = peers_.at(key);
  peer.idle = loop_.after(settings_.idle, [this, key, before = peer.next_id] {
    const auto it = peers_.find(key);
    CHECK(it != peers_.end() && it->second.mux, "a connection that is gone is watched");
    it->second.idle = 0;
    if (it->second.mux->streams() == 0 && it->second.next_id == before)
      it->second.mux->close("idle");
    else
      watch_idle(key);
  });
}

void Peers::drop(const std::string& key) {
  const auto it = peers_.find(key);
  if (it == peers_.end())
    return;
  if (it->second.idle)
    loop_.cancel(it->second.idle);
  loop_.post([dead = std::move(it->second.mux)] {});
  peers_.erase(it);
}

void Peers::shun(const std::string& node) {
  Shun& shun = shuns_.try_emplace(node, Shun{0, settings_.shun}).first->second;
  if (shun.timer)
    return;
  shun.timer = loop_.after(shun.next, [this, node] { shuns_.at(node).timer = 0; });
  shun.next = std::min(shun.next * 2, settings_.shun_max);
  CHECK(shunned(node));
}

bool Peers::shunned(const std::string& node) const {
  const auto it = shuns_.find(node);
  return it != shuns_.end() && it->second.timer != 0;
}

}  // namespace lockstep
