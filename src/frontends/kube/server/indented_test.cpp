#include "frontends/kube/server/indented.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

TEST(Indented, ReadsAsGoWritesIt) {
  EXPECT_EQ(indented(R"({"a":{"b":[1,"x,{\"y\"]"],"c":{},"d":[]},"e":null})"),
            "{\n  \"a\": {\n    \"b\": [\n      1,\n      \"x,{\\\"y\\\"]\"\n    ],\n    \"c\": {},\n    \"d\": []\n"
            "  },\n  \"e\": null\n}");
}

TEST(Indented, DeepListsDoNotGrowWithoutEnd) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "[1,";
  deep += "1";
  for (int i = 0; i < 100; ++i) deep += "]";
  std::string many = "[" + deep;
  for (int i = 0; i < 1000; ++i) many += "," + deep;
  many += "]";
  EXPECT_LE(indented(many).size(), many.size() * 8 + 1024);
}

TEST(Indented, BrowsersAndWhoAsks) {
  HttpRequest http;
  EXPECT_FALSE(wants_indented(http));
  http.headers["user-agent"] = "curl/8.5.0";
  EXPECT_TRUE(wants_indented(http));
  http.query["pretty"] = "false";
  EXPECT_FALSE(wants_indented(http));
  http.headers.clear();
  http.query["pretty"] = "true";
  EXPECT_TRUE(wants_indented(http));
}

}  // namespace
}  // namespace lockstep::kube
