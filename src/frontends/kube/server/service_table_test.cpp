#include "frontends/kube/server/service_table.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "frontends/kube/server/service_facts.h"
#include "model/node.h"

namespace lockstep::kube {
namespace {

Ref<Object> object_with(std::string_view type, const std::string& name, const std::string& body,
                        std::vector<std::pair<std::string, std::string>> labels = {}) {
  auto out = std::make_shared<Object>();
  out->type = type;
  out->meta.ns = "lab";
  out->meta.name = name;
  out->meta.uid = Uid(7);
  out->body = body;
  if (!labels.empty()) {
    MetaExtra extra;
    extra.labels = std::move(labels);
    out->meta.extra = std::make_shared<const MetaExtra>(std::move(extra));
  }
  return out;
}

Ref<Object> slice(const std::string& name, const std::string& address) {
  return object_with(
      kSlicesType, name,
      R"({"addressType":"IPv4","ports":[{"name":"","port":8080,"protocol":"TCP"}],"endpoints":[{"addresses":[")" +
          address + R"("],"conditions":{"ready":true},"nodeName":"n1"}]})",
      {{"kubernetes.io/service-name", "web"}});
}

// Other programs lead to those; their names answer.
TEST(ServiceFacts, OfThoseThatAreLeftToOthers) {
  for (const char* label : {"service.kubernetes.io/headless", "service.kubernetes.io/service-proxy-name"}) {
    const auto left = object_with(kServicesType, "web", R"({"spec":{"type":"LoadBalancer","clusterIP":"10.96.3.1",
      "ports":[{"name":"http","port":80,"protocol":"TCP","nodePort":30080}],"externalIPs":["192.0.2.7"],
      "externalTrafficPolicy":"Local","healthCheckNodePort":31000},
      "status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.8"}]}}})",
                                  {{label, ""}});
    const ServiceFact fact = fact_of_service(*left);
    EXPECT_EQ(fact.address, "10.96.3.1");
    EXPECT_TRUE(fact.ports.empty() && fact.external.empty() && fact.health_port == 0) << label;
  }
}

TEST(ServiceFacts, OfAService) {
  const auto web = object_with(kServicesType, "web", R"({"spec":{"type":"NodePort","clusterIP":"10.96.3.1",
    "ports":[{"name":"http","port":80,"protocol":"TCP","nodePort":30080},{"name":"big","port":70000}],
    "sessionAffinity":"ClientIP","externalTrafficPolicy":"Local","healthCheckNodePort":31000,"externalIPs":["192.0.2.7"]},
    "status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.8"},{"ip":"192.0.2.9","ipMode":"Proxy"}]}}})");
  const ServiceFact fact = fact_of_service(*web);
  EXPECT_EQ(fact.order, 7u);
  EXPECT_EQ(fact.address, "10.96.3.1");
  EXPECT_EQ(fact.ports, (std::vector<ServicePort>{{"http", "tcp", 80, 30'080}, {"big", "tcp", 0, 0}}));
  EXPECT_EQ(fact.affinity_s, 10'800u);
  EXPECT_TRUE(fact.local_outside);
  EXPECT_FALSE(fact.local_inside);
  EXPECT_EQ(fact.health_port, 31'000);
  EXPECT_EQ(fact.external, (std::vector<std::string>{"192.0.2.7", "192.0.2.8"}));
  EXPECT_FALSE(fact.answers_names) << "only kube-system's";
}

TEST(ServiceFacts, OfWhatHasNoAddress) {
  EXPECT_TRUE(fact_of_service(*object_with(kServicesType, "a", R"({"spec":{"clusterIP":"None"}})")).headless);
  const ServiceFact alias = fact_of_service(
      *object_with(kServicesType, "a", R"({"spec":{"type":"ExternalName","externalName":"Example.org"}})"));
  EXPECT_EQ(alias.alias, "example.org");
  EXPECT_EQ(fact_of_service(*object_with(kServicesType, "a", "{}")).address, "");
}

TEST(ServiceFacts, OfASlice) {
  const auto ends = ends_of_slice(*slice("web-1", "10.70.128.3"));
  ASSERT_TRUE(ends);
  EXPECT_EQ(ends->service, "web");
  EXPECT_EQ(ends->ends, (std::vector<ServiceEnd>{{"10.70.128.3", "n1", "", true, true, false}}));
  EXPECT_FALSE(ends_of_slice(*object_with(kSlicesType, "x", R"({"addressType":"IPv4"})"))) << "of no Service";
  EXPECT_FALSE(ends_of_slice(
      *object_with(kSlicesType, "x", R"({"addressType":"IPv6"})", {{"kubernetes.io/service-name", "web"}})));
}

// What a reader hears from its place on; each line's kind and name.
std::string heard(const ServiceTable& table, ServiceTable::Place& place) {
  std::string text, out;
  Pulled last = Pulled::kMore;
  while (last == Pulled::kMore) last = table.tell(place, text);
  for (const std::string& line : split(text, '\n')) {
    if (line.empty())
      continue;
    const auto read = decode_service_line(line);
    if (!read.ok())
      return read.error().message;
    if (const auto* head = std::get_if<ServiceHead>(&*read))
      out += head->anew ? "anew " : "on ";
    else if (const auto* fact = std::get_if<ServiceFact>(&*read))
      out += "service:" + fact->name + " ";
    else if (const auto* ends = std::get_if<ServiceEnds>(&*read))
      out += format("ends:{}:{} ", ends->name, ends->ends.size());
    else if (const auto* node = std::get_if<NodeFact>(&*read))
      out += "node:" + node->name + " ";
    else if (const auto* gone = std::get_if<ServiceGone>(&*read))
      out += format("gone:{}:{} ", gone->kind, gone->name);
    else
      out += "mark ";
  }
  return out + (last == Pulled::kEnd ? "end" : "");
}

TEST(ServiceTable, EachHearsWhatIsBehindItsPlace) {
  ServiceTable table("e");
  const Tables none;
  table.begin(none);
  ServiceTable::Place early;
  EXPECT_EQ(heard(table, early), "anew mark ");
  const auto web = object_with(kServicesType, "web", R"({"spec":{"clusterIP":"10.96.3.1"}})");
  table.change(none, {1, web});
  table.change(none, {2, slice("web-1", "10.70.128.3")});
  EXPECT_EQ(heard(table, early), "service:web ends:web-1:1 mark ");
  EXPECT_EQ(heard(table, early), "");
  // A status alone is no news.
  table.change(none, {3, object_with(kServicesType, "web", R"({"spec":{"clusterIP":"10.96.3.1"},"status":{"x":1}})")});
  EXPECT_EQ(heard(table, early), "");
  table.change(none, {4, slice("web-1", "10.70.128.4")});
  table.change(none, {5, web, true});
  EXPECT_EQ(heard(table, early), "ends:web-1:1 gone:service:web mark ");
  ServiceTable::Place late;
  EXPECT_EQ(heard(table, late), "anew ends:web-1:1 gone:service:web mark ");
  // Asked again, it goes on where it was; another start's place counts for nothing.
  ServiceTable::Place again;
  again.version = table.place_after("e", 2);
  EXPECT_EQ(heard(table, again), "on ends:web-1:1 gone:service:web mark ");
  EXPECT_EQ(table.place_after("f", 2), 0u);
  EXPECT_EQ(table.place_after("e", 99), 0u);
}

// The addresses from outside that nodes are told of a Service.
std::vector<std::string> told_external(const ServiceTable& table) {
  ServiceTable::Place place;
  std::string text;
  while (table.tell(place, text) == Pulled::kMore) {}
  for (const std::string& line : split(text, '\n'))
    if (const auto read = decode_service_line(line); read.ok())
      if (const auto* fact = std::get_if<ServiceFact>(&*read))
        return fact->external;
  return {};
}

TEST(ServiceTable, NodesAreToldTheAddressesFromOutsideThatAreListed) {
  ServiceTable table("e", [] { return std::vector<std::string>{"198.51.100.1"}; });
  Tables tables;
  const auto web = object_with(kServicesType, "web", R"({"spec":{"clusterIP":"10.96.3.1",
    "externalIPs":["192.0.2.7","203.0.113.5","198.51.100.1"]},
    "status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.8"}]}}})");
  tables.objects[{web->type, web->meta.ns, web->meta.name}] = web;
  table.begin(tables);
  EXPECT_TRUE(told_external(table).empty()) << "no list, no claim";
  auto list = std::make_shared<Object>();
  list->type = "configmaps";
  list->meta.ns = "kube-system";
  list->meta.name = "external-addresses";
  list->body = std::string(R"({"data":{"ranges":"192.0.2.0/24, 198.51.100.0/24\n10.0.0.0/33 x"}})");
  table.change(tables, {1, Ref<Object>(list)});
  EXPECT_EQ(told_external(table), (std::vector<std::string>{"192.0.2.7", "192.0.2.8"})) << "the controller's never";
  list = std::make_shared<Object>(*list);
  table.change(tables, {2, Ref<Object>(list), true});
  EXPECT_TRUE(told_external(table).empty());
}

TEST(ServiceTable, WhoWasAwayForTooManyRemovalsBeginsAnew) {
  ServiceTable table("e");
  const Tables none;
  ServiceTable::Place place;
  table.change(none, {1, slice("first", "10.70.128.3")});
  EXPECT_EQ(heard(table, place), "anew ends:first:1 mark ");
  for (Seq i = 0; i < 20'001; ++i) {
    const auto one = slice(format("s{}", i), "10.70.128.3");
    table.change(none, {i, one});
    table.change(none, {i, one, true});
  }
  EXPECT_EQ(heard(table, place), "end");
  EXPECT_EQ(table.place_after("e", 1), 0u);
}

TEST(ServiceTable, NodesAreToldWithTheirRanges) {
  ServiceTable table("e");
  const Tables none;
  auto node = std::make_shared<Node>();
  node->meta.name = "n1";
  node->address = "10.70.1.1";
  table.change(none, {1, Ref<Node>(node)});
  table.change(none, {2, Ref<Node>(node)});
  ServiceTable::Place place;
  EXPECT_EQ(heard(table, place), "anew node:n1 mark ");
  table.change(none, {3, Ref<Node>(node), true});
  EXPECT_EQ(heard(table, place), "gone:node:n1 mark ");
}

}  // namespace
}  // namespace lockstep::kube
