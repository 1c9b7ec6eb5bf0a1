#include "frontends/kube/server/service_variables.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lockstep::kube {
namespace {

Ref<Object> service(const std::string& ns, const std::string& name, int ports) {
  auto out = std::make_shared<Object>();
  out->type = "services";
  out->meta.ns = ns;
  out->meta.name = name;
  std::string list;
  for (int port = 1; port <= ports; ++port)
    list += format(R"({}{{"name":"p{}","port":{},"protocol":"TCP"}})", port > 1 ? "," : "", port, port);
  out->body = format(R"({{"spec":{{"clusterIP":"10.96.3.1","ports":[{}]}}}})", list);
  return out;
}

TEST(ServiceVariables, AreThoseOfTheNamespaceAndTheApi) {
  ServiceVariables all;
  Tables none;
  all.change(none, {1, service("default", "kubernetes", 1)});
  all.change(none, {2, service("lab", "my-web", 2)});
  all.change(none, {3, service("other", "web", 1)});
  const Variables lab = all.of("lab", true, "https://10.70.0.1:6820");
  EXPECT_EQ(lab.at("MY_WEB_SERVICE_HOST"), "10.96.3.1");
  EXPECT_EQ(lab.at("MY_WEB_SERVICE_PORT_P2"), "2");
  EXPECT_EQ(lab.at("MY_WEB_PORT_2_TCP"), "tcp://10.96.3.1:2");
  EXPECT_EQ(lab.at("KUBERNETES_SERVICE_HOST"), "10.70.0.1");
  EXPECT_FALSE(lab.contains("WEB_SERVICE_HOST"));
  EXPECT_FALSE(all.of("lab", false, "").contains("MY_WEB_SERVICE_HOST"));
  EXPECT_EQ(all.of("lab", false, "").at("KUBERNETES_SERVICE_HOST"), "10.96.3.1");
  all.change(none, {4, service("lab", "my-web", 2), true});
  EXPECT_FALSE(all.of("lab", true, "").contains("MY_WEB_SERVICE_HOST"));
}

// 25 Services of 1,000 ports held the I/O thread for 1.5 s, whenever one of their pods' nodes asked.
TEST(ServiceVariables, ThatAreTooLongAreNotWorkedOut) {
  ServiceVariables all;
  Tables none;
  for (int i = 0; i < 25; ++i) all.change(none, {1, service("lab", format("s{}", i), 1'000)});
  EXPECT_TRUE(all.are_too_long("lab"));
  EXPECT_TRUE(all.of("lab", true, "").empty());
  EXPECT_FALSE(all.are_too_long("other"));
  for (int i = 1; i < 25; ++i) all.change(none, {2, service("lab", format("s{}", i), 1'000), true});
  all.change(none, {3, service("lab", "s0", 10)});
  EXPECT_FALSE(all.are_too_long("lab"));
  EXPECT_EQ(all.of("lab", true, "").at("S0_SERVICE_PORT_P10"), "10");
}

}  // namespace
}  // namespace lockstep::kube
