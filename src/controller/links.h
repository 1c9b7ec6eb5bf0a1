// LinkHub: the agents' connections. Each carries messages for the desk, forwarded calls of local clients, and streams:
// ours to shims (even ids), clients' upgraded requests and the long bodies of calls (odd ids), each with its own
// credit. What one node's calls hold of our memory is bounded, and so is what we keep for a node that does not read.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fair_share.h"
#include "controller/launch_lane.h"
#include "controller/node_desk.h"
#include "ports/http.h"
#include "wire/step_route.h"

namespace lockstep {

struct LinkLimits {
  std::size_t memory_bytes = 512u << 20;       // of forwarded calls and their answers; a node gets a quarter
  std::size_t unsent_bytes_max = 256u << 20;   // for a node that does not read: then its link ends
  std::size_t links_per_node = 4;              // the oldest ends
  std::size_t calls_and_streams_max = 20'000;  // of one link
};

class LinkHub {
 public:
  struct Handlers {
    std::function<void(std::uint64_t link, std::string node_name, std::string certificate, std::string address)>
        connected;
    std::function<void(std::uint64_t link)> disconnected;
    std::function<void(std::uint64_t link, FromAgent message)> message;
    // What a node that was welcomed has measured. Empty: nobody wants to know.
    std::function<void(const std::string& node_name, Telemetry told)> measured{};
    HttpHandler call;                                                      // a local client's request, forwarded
    std::function<void(const std::string& node_name, Welcome&)> complete;  // before it is sent
    std::function<void(const std::string& node_name)> welcomed;            // streams can be opened there now
    std::function<std::size_t(const HttpRequest& head)> body_bound{};      // of a forwarded call; empty: no other bound
    // A sentence for the log and the status: the node is refused, or another connection took over. "": it is welcome.
    std::function<void(const std::string& node_name, std::string what)> told{};
    // Runs the work, which sends so many bytes for that user of the cluster, when it is their turn. Empty: at once.
    std::function<void(std::uint32_t uid, std::size_t bytes, std::function<void()> work)> in_turn{};
    // Does the work on another thread, then `then` here. An error: neither. Empty: all is done here.
    std::function<Result<void>(const std::string& node_name, std::function<void()> work, std::function<void()> then)>
        aside{};
  };
  explicit LinkHub(Handlers handlers, LinkLimits limits = {});
  ~LinkHub();

  static constexpr const char* kRefusedWord = " is refused: ";  // in what is told
  // Whose link it is, as its certificate proves.
  struct Holder {
    std::string node_name;
    std::string certificate;   // serial
    std::string realm;         // of the node's local users; "" for compute nodes: only owners of what runs there speak
    std::string address = {};  // from which it was dialled
  };
  void add(std::unique_ptr<Stream> stream, Holder holder);
  void send(std::vector<NodeDesk::Outgoing> messages);
  // To every node that was welcomed but this one; make(name) is its message.
  void tell_others(const std::string& node_name, const std::function<ToAgent(const std::string& other)>& make);

  // A stream to the shim of a step on that node; null without a link.
  std::unique_ptr<Stream> open(const std::string& node_name, const StepOpen& what);
  // Where other agents reach that node's, at its record's address; port 0: nowhere.
  struct PeerAddress {
    std::uint16_t port = 0;
    std::string certificate;  // that it shows there
  };
  PeerAddress peer_address(const std::string& node_name) const;
  bool has(const std::string& node_name) const { return by_name_.contains(node_name); }
  std::size_t size() const { return links_.size(); }

  struct Link;

 private:
  void drop(std::uint64_t id);
  void closed(std::uint64_t id, const std::string& why);
  void frame(const std::shared_ptr<Link>& link, struct Frame frame);
  void message(const std::shared_ptr<Link>& link, std::string payload);
  void read_next(const std::shared_ptr<Link>& link);
  void read_aside(const std::shared_ptr<Link>& link);
  void take(const std::shared_ptr<Link>& link, Result<FromAgent> message);
  void call(const std::shared_ptr<Link>& link, const struct Frame& frame);
  void collect(const std::shared_ptr<Link>& link, std::uint64_t id, HttpRequest head, std::uint64_t bytes);
  void check_unsent(const std::shared_ptr<Link>& link);
  void end_older(const std::string& node_name);
  LaunchLane::Ways lane_ways(const std::shared_ptr<Link>& link);
  void refuse(Link& link, const std::string& why);
  void tell(const std::string& node_name, std::string what) const;
  void tell_of_takeover(const Link& link) const;

  Handlers handlers_;
  LinkLimits limits_;
  std::shared_ptr<FairShare> memory_;  // by node; shared with answers that outlive us
  std::map<std::uint64_t, std::shared_ptr<Link>> links_;
  std::map<std::string, std::uint64_t, std::less<>> by_name_;  // of welcomed links
  std::deque<std::shared_ptr<Link>> dying_;                    // closed lately
  std::uint64_t next_ = 1;
};

}  // namespace lockstep
