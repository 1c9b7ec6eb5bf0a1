#include "frontends/kube/controllers/endpoint_subsets.h"

#include <arpa/inet.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>

#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

// Null: it is no address.
const char* type_of_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1    ? "IPv4"
         : inet_pton(AF_INET6, text.c_str(), bytes) == 1 ? "IPv6"
                                                         : nullptr;
}

json::object slice_port(const json::value& port) {
  json::object out{{"name", text_in(port, "name")}, {"port", part(port, "port")}};
  const std::string protocol = text_in(port, "protocol"), app = text_in(port, "appProtocol");
  out["protocol"] = protocol.empty() ? "TCP" : protocol;
  if (!app.empty())
    out["appProtocol"] = app;
  return out;
}

json::object slice_end(const json::value& address, bool ready) {
  json::object out{{"addresses", json::array{json::string_view(text_in(address, "ip"))}},
                   {"conditions", {{"ready", ready}}}};
  for (const char* same : {"hostname", "nodeName"})
    if (const std::string text = text_in(address, same); !text.empty())
      out[same] = text;
  if (part(address, "targetRef").is_object())
    out["targetRef"] = part(address, "targetRef");
  return out;
}

struct SaidAddress {
  const json::value* address = nullptr;
  bool ready = true;
};
// By what tells addresses apart, which is also their order.
using SaidAddresses = std::map<std::string, SaidAddress>;

std::string address_key(const json::value& address) {
  return text_in(address, "ip") + " " + text_in(part(address, "targetRef"), "uid");
}

// Whoever is not ready anywhere is not ready at that port.
void add_addresses(SaidAddresses& to, const json::value& subset) {
  for (const auto& [list, ready] : {std::pair{"notReadyAddresses", false}, {"addresses", true}})
    for (const json::value& address : list_in(subset, list)) {
      SaidAddress& said = to.try_emplace(address_key(address), SaidAddress{&address, ready}).first->second;
      said.ready = said.ready && ready;
    }
}

std::string text_of_all(const SaidAddresses& addresses) {
  std::string out;
  for (const auto& [key, said] : addresses) out += key + (said.ready ? "+" : "-");
  return out;
}

}  // namespace

std::string MirroredSlice::key() const { return address_type + json::serialize(ports); }

std::vector<MirroredSlice> slices_of_endpoints(const json::value& endpoints) {
  // Subsets may repeat one another: what counts is which addresses have which port. "": addresses without any.
  std::map<std::string, SaidAddresses> by_port;
  for (const json::value& subset : list_in(endpoints, "subsets")) {
    const json::array& ports = list_in(subset, "ports");
    if (ports.empty())
      add_addresses(by_port[""], subset);
    for (const json::value& port : ports) add_addresses(by_port[json::serialize(slice_port(port))], subset);
  }
  struct Group {
    json::array ports;
    SaidAddresses addresses;
  };
  std::map<std::string, Group> groups;
  for (const auto& [port, addresses] : by_port) {
    Group& group = groups[text_of_all(addresses)];
    group.addresses = addresses;
    if (!port.empty())
      group.ports.push_back(json::parse(port));
  }
  std::map<std::string, MirroredSlice> out;
  for (const auto& [text, group] : groups) {
    std::size_t left = kMirroredOfSubset;
    for (const auto& [key, said] : group.addresses) {
      const char* type = type_of_address(text_in(*said.address, "ip"));
      if (!type || left == 0)
        continue;
      --left;
      MirroredSlice one{type, group.ports, {}};
      MirroredSlice& slice = out.try_emplace(one.key(), std::move(one)).first->second;
      slice.endpoints.push_back(slice_end(*said.address, said.ready));
    }
  }
  std::vector<MirroredSlice> all;
  for (auto& [key, slice] : out) all.push_back(std::move(slice));
  return all;
}

}  // namespace lockstep::kube
