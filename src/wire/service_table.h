// What a front end tells every node of its services: under which address and names each is found, and what is behind
// it. GET /v1/service-table answers with lines, one fact each; a later line about the same thing takes the place of the
// earlier one (docs/decisions/0022-services-on-nodes.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr const char* kServiceTablePath = "/v1/service-table";
inline constexpr std::size_t kServiceLineMax = 4 << 20;  // bytes of one line

struct ServicePort {
  std::string name, protocol = "tcp";  // or "udp", "sctp"
  std::uint16_t port = 0;
  std::uint16_t node_port = 0;  // the same on every address of a node; 0 = none
  friend bool operator==(const ServicePort&, const ServicePort&) = default;
};

// Spaces and names are DNS labels. A service is found as NAME.SPACE.svc.ZONE.
struct ServiceFact {
  std::string space, name;
  std::uint64_t order = 0;            // unique; of two that claim the same, the lower one has it
  std::string address;                // that nodes translate; "" = none
  std::vector<std::string> external;  // further ones, which somebody else leads to the nodes
  std::string alias;                  // it is another name
  bool headless = false;              // its name stands for the addresses behind it
  std::vector<ServicePort> ports;
  std::uint32_t affinity_s = 0;  // a client stays with what it was led to for so long after its last connection; 0 = no
  bool local_inside = false;     // from within the cluster: only to what is on the client's own node
  bool local_outside = false;    // from outside: only to what is on the node that was asked, which sees the client
  std::uint16_t health_port = 0;  // of the node: says over HTTP whether something of it is there; 0 = none
  bool is_controller = false;     // what is behind it is the controller, wherever a node reaches it
  bool answers_names = false;     // where nothing is behind it, the node itself answers DNS at its address
  friend bool operator==(const ServiceFact&, const ServiceFact&) = default;
};

struct ServiceEnd {
  std::string address, node;  // node "" = not known
  std::string host;           // its own label under the service's name; "" = none
  bool ready = true, serving = true, going = false;
  friend bool operator==(const ServiceEnd&, const ServiceEnd&) = default;
};

// Some of what is behind a service: its part `name`. All of it have the same ports, of which the names lead to the
// service's.
struct ServiceEnds {
  std::string space, name, service;
  std::vector<ServicePort> ports;
  std::vector<ServiceEnd> ends;
  friend bool operator==(const ServiceEnds&, const ServiceEnds&) = default;
};

struct NodeFact {
  std::string name, address, range;  // range: of its tasks' addresses; "" = it has none
  friend bool operator==(const NodeFact&, const NodeFact&) = default;
};

// How the lines are to be read. The first of each answer; with `anew` all that was told before counts no more, once
// the answer's first `ServiceMark` says that the rest is there.
struct ServiceHead {
  std::string zone;   // "cluster.local"
  std::string range;  // that services' addresses are of: "10.96.0.0/16"
  bool anew = false;
  friend bool operator==(const ServiceHead&, const ServiceHead&) = default;
};
struct ServiceGone {
  std::string kind;         // "service", "ends", "node"
  std::string space, name;  // space "" for nodes
  friend bool operator==(const ServiceGone&, const ServiceGone&) = default;
};
// Everything up to here was told: asked again with these two, an answer goes on behind it.
struct ServiceMark {
  std::string epoch;
  std::uint64_t version = 0;
  friend bool operator==(const ServiceMark&, const ServiceMark&) = default;
};

using ServiceLine = std::variant<ServiceHead, ServiceFact, ServiceEnds, NodeFact, ServiceGone, ServiceMark>;

std::string encode_service_line(const ServiceLine& line);  // with its end of line
Result<ServiceLine> decode_service_line(std::string_view text);

}  // namespace lockstep
