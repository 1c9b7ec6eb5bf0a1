// LinkHub: the agents' connections. Each carries messages for the desk, forwarded calls of local clients, and streams:
// ours to shims (even ids) and clients' upgraded requests (odd ids), each with its own credit.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/node_desk.h"
#include "ports/http.h"
#include "wire/step_route.h"

namespace lockstep {

inline constexpr std::size_t kStreamCredit = 1 << 20;  // bytes a sender may have under way to begin with

class LinkHub {
 public:
  struct Handlers {
    std::function<void(std::uint64_t link, std::string node_name)> connected;
    std::function<void(std::uint64_t link)> disconnected;
    std::function<void(std::uint64_t link, FromAgent message)> message;
    HttpHandler call;                                                      // a local client's request, forwarded
    std::function<void(const std::string& node_name, Welcome&)> complete;  // before it is sent
    std::function<void(const std::string& node_name)> welcomed;            // streams can be opened there now
  };
  explicit LinkHub(Handlers handlers);
  ~LinkHub();

  // realm: of the node's local users. Empty for compute nodes: only owners of what runs there may speak.
  void add(std::unique_ptr<Stream> stream, std::string node_name, std::string realm);
  void send(std::vector<NodeDesk::Outgoing> messages);

  // A stream to the shim of a step on that node; null without a link.
  std::unique_ptr<Stream> open(const std::string& node_name, const StepOpen& what);
  // Where other agents reach that node's, as it said on its link; port 0: nowhere.
  struct PeerAddress {
    std::string host;
    std::uint16_t port = 0;
  };
  PeerAddress peer_address(const std::string& node_name) const;
  bool has(const std::string& node_name) const { return by_name_.contains(node_name); }
  std::size_t size() const { return links_.size(); }

  struct Link;

 private:
  void drop(std::uint64_t id);
  void frame(const std::shared_ptr<Link>& link, struct Frame frame);

  Handlers handlers_;
  std::map<std::uint64_t, std::shared_ptr<Link>> links_;
  std::map<std::string, std::uint64_t, std::less<>> by_name_;  // of welcomed links
  std::deque<std::shared_ptr<Link>> dying_;                    // closed lately
  std::uint64_t next_ = 1;
};

}  // namespace lockstep
