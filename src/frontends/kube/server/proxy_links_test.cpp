#include "frontends/kube/server/proxy_links.h"

#include <gtest/gtest.h>

#include "frontends/kube/server/proxy.h"

namespace lockstep::kube {
namespace {

const ProxyPlace kPlace{"/api/v1/namespaces/n/pods/web/proxy", "api:6820", "10.77.1.3:80"};

TEST(ProxyLinks, of_the_server_lead_through_the_proxy) {
  EXPECT_EQ(proxied_link("/x?y#z", kPlace), kPlace.prefix + "/x?y#z");
  EXPECT_EQ(proxied_link("http://10.77.1.3:80/x", kPlace), kPlace.prefix + "/x");
  EXPECT_EQ(proxied_link("https://api:6820", kPlace), kPlace.prefix + "/");
  EXPECT_EQ(proxied_link("//api:6820/x", kPlace), kPlace.prefix + "/x");
}

TEST(ProxyLinks, to_elsewhere_and_what_is_relative_stay) {
  for (const char* link : {"x/y", "", "#top", "https://elsewhere.example/x", "//elsewhere.example/x", "mailto:a@b",
                           "///x", "/api/v1/namespaces/n/pods/web/proxy/x"})
    EXPECT_EQ(proxied_link(link, kPlace), link);
}

TEST(ProxyLinks, of_a_page_are_changed_and_nothing_else) {
  EXPECT_EQ(proxied_page("<a href=\"/x\" title=\"/x\">/x</a><IMG SRC='/y'><form action=/z><p src=\"/n\">", kPlace),
            "<a href=\"" + kPlace.prefix + "/x\" title=\"/x\">/x</a><IMG SRC='" + kPlace.prefix +
                "/y'><form action=" + kPlace.prefix + "/z><p src=\"/n\">");
  for (const char* page : {"<!-- <a href=\"/x\"> -->", "a < b", "<", "<a", "<a href", "<a href=", "<a href=\"", "</a>"})
    EXPECT_EQ(proxied_page(page, kPlace), page);
}

TEST(ProxyNames, are_of_a_scheme_a_name_and_a_port) {
  const auto whole = parse_proxy_name("https:web:8443");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->scheme + "|" + whole->name + "|" + whole->port, "https|web|8443");
  EXPECT_EQ(parse_proxy_name("web")->name, "web");
  EXPECT_EQ(parse_proxy_name("web:http")->port, "http");
  for (const char* text : {"", ":80", "ftp:web:21", "a:b:c:d"}) EXPECT_FALSE(parse_proxy_name(text)) << text;
}

}  // namespace
}  // namespace lockstep::kube
