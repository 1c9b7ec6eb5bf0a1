#include "frontends/kube/controllers/endpoint_subsets.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

// "IPv4 80/TCP: 10.0.0.1 10.0.0.2-", one a line; a dash behind what is not ready.
std::string slices(std::string_view subsets) {
  std::string out;
  for (const MirroredSlice& one : slices_of_endpoints(json::parse(R"({"subsets":)" + std::string(subsets) + "}"))) {
    out += one.address_type;
    for (const json::value& port : one.ports)
      out += " " + text_in(port, "name") + std::to_string(port.at("port").to_number<int>()) + "/" +
             text_in(port, "protocol");
    out += ":";
    for (const json::value& end : one.endpoints)
      out += " " + std::string(end.at("addresses").as_array().at(0).as_string()) +
             (end.at("conditions").at("ready").as_bool() ? "" : "-");
    out += "\n";
  }
  return out;
}

TEST(EndpointSubsets, ASliceForThosePortsEach) {
  EXPECT_EQ(slices(R"([{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"name":"a","port":80}]},
                       {"addresses":[{"ip":"10.0.0.2"}],"notReadyAddresses":[{"ip":"10.0.0.3"}],"ports":[{"name":"a","port":8080}]}])"),
            "IPv4 a80/TCP: 10.0.0.1\nIPv4 a8080/TCP: 10.0.0.2 10.0.0.3-\n");
}

TEST(EndpointSubsets, ThatRepeatOneAnotherAreTold_Once) {
  // Who has the same ports is together, and so are the ports of the same addresses.
  EXPECT_EQ(slices(R"([{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":80}]},
                       {"addresses":[{"ip":"10.0.0.2"}],"ports":[{"port":80}]}])"),
            "IPv4 80/TCP: 10.0.0.1 10.0.0.2\n");
  EXPECT_EQ(slices(R"([{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"name":"a","port":80}]},
                       {"addresses":[{"ip":"10.0.0.1"}],"ports":[{"name":"b","port":81,"protocol":"UDP"}]}])"),
            "IPv4 a80/TCP b81/UDP: 10.0.0.1\n");
  EXPECT_EQ(slices(R"([{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":80}]},
                       {"notReadyAddresses":[{"ip":"10.0.0.1"}],"ports":[{"port":80}]}])"),
            "IPv4 80/TCP: 10.0.0.1-\n");
}

TEST(EndpointSubsets, FamiliesAreApartAndWhatIsNoAddressIsLeftOut) {
  EXPECT_EQ(slices(R"([{"addresses":[{"ip":"fd00::1"},{"ip":"10.0.0.1"},{"ip":"10.0.0.300"}],"ports":[{"port":80}]}])"),
            "IPv4 80/TCP: 10.0.0.1\nIPv6 80/TCP: fd00::1\n");
  EXPECT_EQ(slices(R"([{"addresses":[{"ip":"10.0.0.1"}]}])"), "IPv4: 10.0.0.1\n");
  EXPECT_EQ(slices("[]"), "");
  EXPECT_EQ(slices(R"([{"ports":[{"port":80}]}])"), "");
}

TEST(EndpointSubsets, HaveABound) {
  std::string addresses;
  for (int i = 0; i < 1200; ++i)
    addresses += (i ? "," : "") + std::string(R"({"ip":"10.0.)") + std::to_string(i / 250) + "." +
                 std::to_string(i % 250) + "\"}";
  const auto all =
      slices_of_endpoints(json::parse(R"({"subsets":[{"ports":[{"port":80}],"addresses":[)" + addresses + "]}]}"));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].endpoints.size(), kMirroredOfSubset);
}

}  // namespace
}  // namespace lockstep::kube
