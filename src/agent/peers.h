// Peers: this agent's connections to others, by which the bytes of steps travel without the controller. One connection
// to each node that was needed lately carries any number of streams; nodes dial us in the same way. Everything is
// mutually authenticated by the cluster's certificates, and each stream by its ticket.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <set>

#include "link/mux.h"
#include "wire/step_route.h"

namespace lockstep {

struct PeerSettings {
  Duration idle = minutes(5);    // a connection without streams is closed after this time
  Duration shun = seconds(30);   // a node that could not be reached is not tried again for this long, twice as long
  Duration shun_max = hours(1);  // after the next failure, up to this
  std::size_t connections_max = 4096;  // that others made
};

class Peers {
 public:
  // A connection to the agent of exactly this node.
  using Dialed = std::function<void(Result<std::unique_ptr<Stream>>)>;
  using Dial = std::function<void(const StepMember& whom, Dialed done)>;
  using Open = std::function<void(StepOpen what, std::unique_ptr<Stream> stream)>;  // dropping the stream refuses
  Peers(EventLoop& loop, Dial dial, Open open, PeerSettings settings = {});
  ~Peers();
  Peers(Peers&&) = delete;

  // Another agent has dialled us: which, and the serial of its certificate. Refused when that counts no more.
  void accept(std::unique_ptr<Stream> connection, const std::string& node, const std::string& certificate);
  // Only this certificate of the node counts from now on ("" = none): connections with another one are closed.
  void revoke(const std::string& node, const std::string& certificate);

  // A stream to a step on another node; null when it cannot be reached, which is remembered for a while. done is called
  // once, perhaps at once.
  using Opened = std::function<void(std::unique_ptr<Stream>)>;
  void open(const StepMember& whom, const StepOpen& what, Opened done);

  void shun(const std::string& node);
  bool shunned(const std::string& node) const;
  std::size_t connections() const { return peers_.size() + accepted_.size(); }

 private:
  struct Peer {
    std::shared_ptr<Mux> mux;  // null while it is dialled
    std::string node, certificate;
    std::uint64_t next_id = 1;
    std::vector<std::pair<StepOpen, Opened>> waiting;
    TimerId idle = 0;
  };
  void dialed(const std::string& key, const std::string& node, Result<std::unique_ptr<Stream>> connection);
  void watch_idle(const std::string& key);
  void drop(const std::string& key);
  bool counts(const std::string& node, const std::string& certificate) const;
  static void begin(Peer& peer, const StepOpen& what, const Opened& done);

  EventLoop& loop_;
  Dial dial_;
  Open open_;
  PeerSettings settings_;
  struct Accepted {
    std::shared_ptr<Mux> mux;
    std::string node, certificate;
  };
  std::map<std::string, Peer> peers_;  // by node, address and certificate
  std::list<Accepted> accepted_;
  std::map<std::string, std::string> revoked_;  // node: the certificate that counts since. Bounded by kRevokedMax
  struct Shun {
    TimerId timer = 0;  // none: it may be tried
    Duration next;      // the length of the next one
  };
  std::map<std::string, Shun> shuns_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace lockstep
