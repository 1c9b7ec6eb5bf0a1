#include "services/packet_rules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace lockstep {
namespace {

ServiceFact service(const std::string& name, std::uint64_t order, const std::string& address) {
  ServiceFact out;
  out.space = "lab";
  out.name = name;
  out.order = order;
  out.address = address;
  out.ports = {{"", "tcp", 80, 0}};
  return out;
}

ServiceEnd end(const std::string& address, const std::string& node, bool ready = true, bool going = false) {
  ServiceEnd out;
  out.address = address;
  out.node = node;
  out.ready = ready;
  out.serving = ready || going;
  out.going = going;
  return out;
}

ServiceEnds ends(const std::string& of, std::vector<ServiceEnd> all, std::uint16_t port = 8080) {
  return {"lab", of + "-1", of, {{"", "tcp", port, 0}}, std::move(all)};
}

// What a node n1 makes of lines.
struct Rig {
  ServiceView view;
  PacketRules rules{{"lockstep-test", "n1", "10.70.128.0/25", "10.70.0.1", 6820}};

  Rig() {
    hear(ServiceHead{"cluster.local", "10.96.0.0/16", true});
    hear(NodeFact{"n1", "10.70.1.1", "10.70.128.0/25"});
    hear(NodeFact{"n2", "10.70.1.2", "10.70.128.128/25"});
    mark();
  }
  void hear(ServiceLine line) { view.hear(std::move(line)); }
  void mark() {
    view.hear(ServiceMark{"e", 1});
    update();
  }
  void update() { rules.update(view, view.take_changes()); }
  bool says(const std::string& what) const { return rules.whole().find(what) != std::string::npos; }
};

std::string lines_with(const std::string& text, std::string_view what) {
  std::string out;
  for (const std::string& line : split(text, '\n'))
    if (line.find(what) != line.npos)
      out += std::string(trim(line)) + "\n";
  return out;
}

TEST(PacketRules, AnAddressLeadsToWhatIsReadyBehindIt) {
  Rig rig;
  rig.hear(service("web", 5, "10.96.3.1"));
  rig.hear(ends("web", {end("10.70.128.3", "n1"), end("10.70.128.130", "n2"), end("10.70.128.4", "n1", false)}));
  rig.update();
  const std::string text = rig.rules.whole();
  EXPECT_NE(
      text.find("chain s-5-tcp-80 {\n    meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.70.128.130 . "
                "8080, 1 : 10.70.128.3 . 8080 }\n"),
      text.npos)
      << text;
  EXPECT_EQ(lines_with(text, "add element"),
            "add element ip lockstep-test cluster { 10.96.3.1 . tcp . 80 : goto s-5-tcp-80 }\n"
            "add element ip lockstep-test hairpin { 10.70.128.3 . 10.70.128.3 }\n"
            "add element ip lockstep-test nodes { 10.70.1.1, 10.70.1.2 }\n"
            "add element ip lockstep-test ranges { 10.70.128.0/25, 10.70.128.128/25 }\n");
}

TEST(PacketRules, OneEndIsAnElementOfAMap) {
  Rig rig;
  ServiceFact web = service("web", 5, "10.96.3.1");
  web.ports = {{"a", "tcp", 80, 30'080}, {"b", "udp", 81, 0}};
  rig.hear(web);
  ServiceEnds behind = ends("web", {end("10.70.128.3", "n1")});
  behind.ports = {{"a", "tcp", 8080, 0}, {"b", "udp", 8081, 0}};
  rig.hear(behind);
  rig.update();
  const std::string text = rig.rules.whole();
  EXPECT_EQ(lines_with(text, "chain s-"), "");
  EXPECT_TRUE(
      rig.says("one-end { 10.96.3.1 . tcp . 80 : 10.70.128.3 . 8080, 10.96.3.1 . udp . 81 : 10.70.128.3 . 8081 }"))
      << text;
  EXPECT_TRUE(rig.says("one-end-ports { tcp . 30080 : 10.70.128.3 . 8080 }"));
}

TEST(PacketRules, OnlyWhatHasChangedIsSaid) {
  Rig rig;
  rig.hear(service("web", 5, "10.96.3.1"));
  rig.hear(ends("web", {end("10.70.128.3", "n1")}));
  rig.hear(service("other", 6, "10.96.3.2"));
  rig.update();
  rig.rules.settle();
  EXPECT_EQ(rig.rules.since_settled(), "");
  rig.hear(service("other", 6, "10.96.3.2"));
  rig.update();
  EXPECT_EQ(rig.rules.since_settled(), "") << "the same again";
  rig.hear(ends("web", {end("10.70.128.130", "n2")}));
  rig.update();
  EXPECT_EQ(rig.rules.since_settled(),
            "delete element ip lockstep-test hairpin { 10.70.128.3 . 10.70.128.3 }\n"
            "delete element ip lockstep-test one-end { 10.96.3.1 . tcp . 80 : 10.70.128.3 . 8080 }\n"
            "add element ip lockstep-test one-end { 10.96.3.1 . tcp . 80 : 10.70.128.130 . 8080 }\n");
  rig.rules.settle();
  rig.hear(ends("web", {end("10.70.128.130", "n2"), end("10.70.128.131", "n2")}));
  rig.update();
  EXPECT_EQ(
      rig.rules.since_settled(),
      "add chain ip lockstep-test s-5-tcp-80\n"
      "table ip lockstep-test {\n  chain s-5-tcp-80 {\n    meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : "
      "10.70.128.130 . 8080, 1 : 10.70.128.131 . 8080 }\n  }\n}\n"
      "add element ip lockstep-test cluster { 10.96.3.1 . tcp . 80 : goto s-5-tcp-80 }\n"
      "delete element ip lockstep-test one-end { 10.96.3.1 . tcp . 80 : 10.70.128.130 . 8080 }\n");
  rig.rules.settle();
  rig.hear(ServiceGone{"service", "lab", "web"});
  rig.update();
  EXPECT_EQ(rig.rules.since_settled(),
            "flush chain ip lockstep-test s-5-tcp-80\n"
            "delete element ip lockstep-test cluster { 10.96.3.1 . tcp . 80 : goto s-5-tcp-80 }\n"
            "delete chain ip lockstep-test s-5-tcp-80\n");
}

TEST(PacketRules, PoliciesDecideWhoIsLedWhere) {
  Rig rig;
  ServiceFact web = service("web", 5, "10.96.3.1");
  web.ports = {{"", "tcp", 80, 30'080}};
  web.local_outside = true;
  rig.hear(web);
  rig.hear(ends("web", {end("10.70.128.130", "n2")}));
  rig.update();
  const std::string text = rig.rules.whole();
  EXPECT_NE(
      text.find("chain x-5-tcp-80 {\n    ip saddr @ranges goto s-5-tcp-80\n    fib saddr type local meta mark set "
                "meta mark | 0x4000 goto s-5-tcp-80\n    goto l-5-tcp-80\n"),
      text.npos)
      << text;
  EXPECT_TRUE(rig.says("closed-ports { tcp . 30080 : drop }")) << "nothing of it is here";
  web.local_outside = false;
  web.local_inside = true;
  rig.hear(web);
  rig.update();
  EXPECT_FALSE(rig.says("10.96.3.1")) << "nothing of it is here: refused, as of the services' range";
  EXPECT_TRUE(rig.says("one-end-ports { tcp . 30080 : 10.70.128.130 . 8080 }"));
  rig.hear(ends("web", {end("10.70.128.130", "n2"), end("10.70.128.3", "n1"), end("10.70.128.4", "n1")}));
  rig.update();
  EXPECT_TRUE(rig.says("cluster { 10.96.3.1 . tcp . 80 : goto l-5-tcp-80 }"));
  EXPECT_TRUE(rig.says("chain x-5-tcp-80 {\n    meta mark set meta mark | 0x4000 goto s-5-tcp-80\n"));
}

TEST(PacketRules, WhatHasNothingBehindItIsRefused) {
  Rig rig;
  ServiceFact web = service("web", 5, "10.96.3.1");
  web.ports = {{"", "tcp", 80, 30'080}};
  web.external = {"192.0.2.7"};
  rig.hear(web);
  rig.update();
  EXPECT_TRUE(rig.says("closed { 192.0.2.7 : goto f-192.0.2.7 }"));
  EXPECT_TRUE(rig.says("chain f-192.0.2.7 {\n    jump y-5\n"));
  EXPECT_TRUE(rig.says("chain y-5 {\n    meta l4proto . th dport vmap { tcp . 80 : goto refuse }\n"));
  EXPECT_TRUE(rig.says("closed-ports { tcp . 30080 : goto refuse }"));
  EXPECT_TRUE(rig.says("ip daddr 10.96.0.0/16 goto refuse"));
  // What goes and still serves is better than nothing, and nothing beside what is ready.
  rig.hear(ends("web", {end("10.70.128.3", "n1", false, true)}));
  rig.update();
  EXPECT_TRUE(rig.says("one-end { 10.96.3.1 . tcp . 80 : 10.70.128.3 . 8080 }"));
  EXPECT_FALSE(rig.says("goto refuse }"));
  rig.hear(ends("web", {end("10.70.128.3", "n1", false, true), end("10.70.128.4", "n1")}));
  rig.update();
  EXPECT_TRUE(rig.says("one-end { 10.96.3.1 . tcp . 80 : 10.70.128.4 . 8080 }"));
  EXPECT_FALSE(rig.says("10.70.128.3 . 8080"));
}

TEST(PacketRules, AClientStaysWithItsEnd) {
  Rig rig;
  ServiceFact web = service("web", 5, "10.96.3.1");
  web.affinity_s = 60;
  rig.hear(web);
  rig.hear(ends("web", {end("10.70.128.3", "n1"), end("10.70.128.4", "n1")}));
  rig.update();
  EXPECT_TRUE(
      rig.says("add set ip lockstep-test s-5-tcp-80-10.70.128.3-8080 { type ipv4_addr; flags dynamic,timeout; "
               "timeout 60s; size 65535; }"));
  EXPECT_TRUE(rig.says("    ip saddr @s-5-tcp-80-10.70.128.3-8080 goto s-5-tcp-80-10.70.128.3-8080\n"));
  std::vector<ServiceEnd> many;
  for (int i = 0; i < 300; ++i) many.push_back(end(format("10.70.{}.{}", 200 + i / 200, i % 200 + 1), "n2"));
  rig.hear(ends("web", many));
  rig.update();
  EXPECT_TRUE(rig.says("dnat ip to jhash ip saddr mod 300 map"));
  EXPECT_FALSE(rig.says("add set"));
}

TEST(PacketRules, OfTwoClaimsTheOlderCounts) {
  Rig rig;
  ServiceFact first = service("zoo", 5, "10.96.3.1"), second = service("aaa", 9, "10.96.3.2");
  first.external = second.external = {"192.0.2.7"};
  second.ports[0].node_port = first.ports[0].node_port = 30'080;
  for (const ServiceFact& one : {second, first}) {
    rig.hear(one);
    rig.hear(ends(one.name, {end("10.70.128.3", "n1")}));
  }
  rig.update();
  EXPECT_TRUE(rig.says("external { 192.0.2.7 : goto e-192.0.2.7 }"));
  EXPECT_TRUE(rig.says("chain e-192.0.2.7 {\n    jump x-5\n    jump x-9\n"));
  EXPECT_TRUE(
      rig.says("chain x-5 {\n    meta mark set meta mark | 0x4000\n    meta l4proto { tcp, udp, sctp } dnat ip to "
               "meta l4proto . th dport map { tcp . 80 : 10.70.128.3 . 8080 }\n    meta mark set meta mark ^ "
               "0x4000\n"));
  EXPECT_TRUE(rig.says("one-end-ports { tcp . 30080 : 10.70.128.3 . 8080 }"));
  rig.hear(ends("zoo", {}));
  rig.update();
  EXPECT_TRUE(rig.says("chain x-5 {\n    meta l4proto . th dport vmap { tcp . 80 : accept }\n"))
      << "the older one has it, though nothing is behind it";
  EXPECT_TRUE(rig.says("element ip lockstep-test ports { tcp . 30080 : accept }"));
  EXPECT_FALSE(rig.says("one-end-ports { tcp"));
  rig.rules.settle();
  rig.hear(ServiceGone{"service", "lab", "zoo"});
  rig.update();
  const std::string later = rig.rules.since_settled();
  EXPECT_NE(later.find("chain e-192.0.2.7 {\n    jump x-9\n"), later.npos) << later;
  EXPECT_NE(later.find("add element ip lockstep-test one-end-ports { tcp . 30080 : 10.70.128.3 . 8080 }"), later.npos);
}

TEST(PacketRules, NobodyTakesWhatTheClusterLeadsItself) {
  Rig rig;
  ServiceFact thief = service("thief", 5, "10.96.3.1");
  thief.external = {"10.96.0.1", "10.96.0.10", "10.70.128.9", "127.0.0.1",   "224.0.0.1",
                    "10.70.0.1", "10.70.1.2",  "10.70.1.1",   "169.254.1.1", "x; flush ruleset"};
  thief.ports = {{"", "udp", 80, 0}};
  rig.hear(thief);
  ServiceEnds behind = ends("thief", {end("10.70.128.3", "n1"), end("0.0.0.0; flush ruleset", "n1")});
  behind.ports[0].protocol = "udp";
  rig.hear(behind);
  rig.update();
  EXPECT_FALSE(rig.says("element ip lockstep-test external"));
  EXPECT_FALSE(rig.says("flush ruleset"));
  EXPECT_EQ(rig.rules.stale_udp().opened, (std::vector<LedTo>{{"10.96.3.1", 80}})) << "no flow of anybody else's ends";
}

TEST(PacketRules, NothingLeadsToTheNodesOwnOrTheControllersPorts) {
  Rig rig;
  rig.hear(service("web", 5, "10.96.3.1"));
  rig.hear(ends("web", {end("127.0.0.1", "n1"), end("169.254.169.254", ""), end("10.70.0.1", ""), end("0.0.0.0", "")}));
  rig.update();
  EXPECT_FALSE(rig.says("10.96.3.1"));
}

TEST(PacketRules, APortOfTheNodeAtWhichSomebodyListensIsTheirs) {
  Rig rig;
  ServiceFact web = service("web", 5, "10.96.3.1");
  web.ports = {{"", "tcp", 80, 30'080}};
  rig.hear(web);
  rig.hear(ends("web", {end("10.70.128.3", "n1")}));
  rig.update();
  const PacketRules::NodePort port{"tcp", 30'080};
  EXPECT_EQ(rig.rules.node_ports().size(), 1u);
  rig.rules.set_taken(rig.view, {port});
  EXPECT_FALSE(rig.says("30080"));
  EXPECT_TRUE(rig.says("10.96.3.1 . tcp . 80"));
  EXPECT_TRUE(rig.rules.node_ports().contains(port)) << "it is looked for";
  rig.rules.set_taken(rig.view, {});
  EXPECT_TRUE(rig.says("one-end-ports { tcp . 30080"));
}

// 25 services of 1,000 ports at 20 addresses each took a million elements.
TEST(PacketRules, WhatAServiceTakesIsNoProduct) {
  Rig rig;
  for (std::uint64_t i = 0; i < 25; ++i) {
    ServiceFact one = service(format("s{}", i), 100 + i, format("10.96.4.{}", i + 1));
    one.ports.clear();
    ServiceEnds behind = ends(one.name, {end("10.70.128.3", "n1")});
    behind.ports.clear();
    for (std::uint16_t port = 1; port <= 1'000; ++port) {
      one.ports.push_back({format("p{}", port), "tcp", port, 0});
      behind.ports.push_back({format("p{}", port), "tcp", port, 0});
    }
    for (int k = 1; k <= 20; ++k) one.external.push_back(format("192.0.2.{}", k));
    rig.hear(one);
    rig.hear(behind);
  }
  rig.update();
  const std::string text = rig.rules.whole();
  EXPECT_LT(text.size(), 3u << 20);
  EXPECT_EQ(std::ranges::count(text, '\n') < 2'000, true);
}

TEST(PacketRules, OfOneSpaceTheOldestHaveTheRoom) {
  Rig rig;
  std::vector<ServiceEnd> many;
  for (int i = 0; i < 10'000; ++i) many.push_back(end(format("10.70.{}.{}", 130 + i / 200, i % 200 + 1), "n2"));
  for (std::uint64_t i = 0; i < 14; ++i) {
    rig.hear(service(format("s{}", i), 100 - i, format("10.96.4.{}", i + 1)));
    rig.hear(ends(format("s{}", i), many));
  }
  rig.update();
  EXPECT_EQ(rig.rules.beyond_bounds(), (std::set<ServiceKey>{{"lab", "s0"}})) << "13 times 10,003 fit";
  EXPECT_FALSE(rig.says("10.96.4.1 "));
  EXPECT_TRUE(rig.says("10.96.4.2 "));
  rig.hear(ServiceGone{"service", "lab", "s5"});
  rig.update();
  EXPECT_TRUE(rig.rules.beyond_bounds().empty());
  EXPECT_TRUE(rig.says("10.96.4.1 "));
}

TEST(PacketRules, WhatIsLeftOutLeadsNowhere) {
  Rig rig;
  for (const auto& [name, order] : {std::pair{"web", 5u}, {"other", 6u}}) {
    rig.hear(service(name, order, format("10.96.3.{}", order)));
    rig.hear(ends(name, {end("10.70.128.3", "n1")}));
  }
  rig.update();
  EXPECT_EQ(rig.rules.unsettled().size(), 2u);
  rig.rules.settle();
  EXPECT_TRUE(rig.rules.unsettled().empty());
  rig.rules.leave_out(rig.view, {{"lab", "web"}});
  EXPECT_FALSE(rig.says("10.96.3.5"));
  EXPECT_TRUE(rig.says("10.96.3.6"));
  rig.rules.leave_out(rig.view, {});
  EXPECT_TRUE(rig.says("10.96.3.5"));
}

TEST(PacketRules, TheControllerIsReachedAsThisNodeReachesIt) {
  Rig rig;
  ServiceFact api = service("kubernetes", 2, "10.96.0.1");
  api.is_controller = true;
  rig.hear(api);
  rig.hear(ends("kubernetes", {end("127.0.0.1", "")}));
  rig.update();
  EXPECT_TRUE(rig.says("one-end { 10.96.0.1 . tcp . 80 : 10.70.0.1 . 6820 }"));
}

TEST(PacketRules, NamesAreAnsweredHereUnlessSomethingIsBehindTheirService) {
  Rig rig;
  ServiceFact names = service("dns", 2, "10.96.0.10");
  names.answers_names = true;
  rig.hear(names);
  rig.update();
  EXPECT_EQ(rig.rules.names_address(), "10.96.0.10");
  EXPECT_TRUE(rig.says("ip daddr 10.96.0.0/16 ip daddr != 10.96.0.10 goto refuse"));
  rig.hear(ends("dns", {end("10.70.128.3", "n1")}));
  rig.update();
  EXPECT_EQ(rig.rules.names_address(), "");
}

TEST(PacketRules, FlowsToWhatIsGoneAreNamed) {
  Rig rig;
  ServiceFact dns = service("udp", 5, "10.96.3.1");
  dns.ports = {{"", "udp", 53, 0}};
  rig.hear(dns);
  ServiceEnds behind = ends("udp", {end("10.70.128.3", "n1"), end("10.70.128.4", "n1")}, 53);
  behind.ports[0].protocol = "udp";
  rig.hear(behind);
  rig.update();
  rig.rules.settle();
  behind.ends.pop_back();
  rig.hear(behind);
  rig.update();
  EXPECT_EQ(rig.rules.stale_udp().gone, (std::vector<LedTo>{{"10.70.128.4", 53}}));
  EXPECT_TRUE(rig.rules.stale_udp().opened.empty());
  rig.rules.settle();
  dns.ports[0].node_port = 30'053;
  rig.hear(dns);
  rig.update();
  EXPECT_EQ(rig.rules.stale_udp().opened, (std::vector<LedTo>{{"", 30'053}}));
}

TEST(PacketRules, HealthPortsCountWhatIsHere) {
  Rig rig;
  ServiceFact web = service("web", 5, "10.96.3.1");
  web.local_outside = true;
  web.health_port = 31'000;
  rig.hear(web);
  rig.hear(ends("web", {end("10.70.128.3", "n1"), end("10.70.128.130", "n2")}));
  rig.update();
  EXPECT_EQ(rig.rules.health_ports().at(31'000), (PacketRules::HealthPort{"lab", "web", 1}));
}

TEST(ServiceView, ATableToldAnewTakesTheOldOnesPlaceWhenItIsWhole) {
  Rig rig;
  rig.hear(service("web", 5, "10.96.3.1"));
  rig.update();
  rig.hear(ServiceHead{"cluster.local", "10.96.0.0/16", true});
  rig.hear(service("other", 6, "10.96.3.2"));
  EXPECT_TRUE(rig.view.find({"lab", "web"}));
  EXPECT_FALSE(rig.view.find({"lab", "other"}));
  rig.mark();
  EXPECT_FALSE(rig.view.find({"lab", "web"}));
  EXPECT_TRUE(rig.view.find({"lab", "other"}));
  EXPECT_FALSE(rig.says("10.96.3.1"));
}

}  // namespace
}  // namespace lockstep
