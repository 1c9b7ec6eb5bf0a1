#include "frontends/kube/server/shown_token.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

HttpRequest with(std::map<std::string, std::string, std::less<>> headers) {
  HttpRequest out;
  out.headers = std::move(headers);
  return out;
}

std::string token(std::map<std::string, std::string, std::less<>> headers) {
  const auto shown = shown_token(with(std::move(headers)));
  return shown.ok() ? *shown : "refused: " + shown.error().message;
}

TEST(ShownToken, ASchemeIsWrittenInAnyCase) {
  for (const char* shown : {"Bearer a.b.c", "bearer a.b.c", "BEARER a.b.c", "bEaReR a.b.c", "  bearer   a.b.c  "})
    EXPECT_EQ(token({{"authorization", shown}}), "a.b.c") << shown;
  for (const char* none : {"", "Bearer", "Bearer ", "Basic YTpi", "bearera.b.c", "Bearer:a.b.c"})
    EXPECT_EQ(token({{"authorization", none}}), "") << none;
}

std::string of_socket(const char* protocols, const char* upgrade = "WebSocket") {
  return token({{"upgrade", upgrade}, {"sec-websocket-protocol", protocols}});
}

TEST(ShownToken, ABrowserOffersItAsAProtocol) {
  // "a.b~c?>" is YS5ifmM_Pg in base64url.
  constexpr const char* kOffer = "v5.channel.k8s.io,base64url.bearer.authorization.k8s.io.YS5ifmM_Pg";
  EXPECT_EQ(of_socket(kOffer), "a.b~c?>");
  EXPECT_EQ(of_socket(kOffer, "SPDY/3.1"), "");
  EXPECT_EQ(of_socket("v5.channel.k8s.io"), "");
  EXPECT_EQ(offered_protocols(with({{"sec-websocket-protocol", kOffer}})), "v5.channel.k8s.io");
  EXPECT_EQ(token({{"authorization", "bearer x"}, {"upgrade", "websocket"}, {"sec-websocket-protocol", kOffer}}), "x");
}

TEST(ShownToken, WhatCannotBeMeantAsOneIsRefused) {
  for (const char* bad : {
           "base64url.bearer.authorization.k8s.io.YS5i",  // nothing beside it
           "a, base64url.bearer.authorization.k8s.io.",
           "a, base64url.bearer.authorization.k8s.io.YS5i=",
           "a, base64url.bearer.authorization.k8s.io.YS5i+",
           "a, base64url.bearer.authorization.k8s.io._w",  // no UTF-8
           "a, base64url.bearer.authorization.k8s.io.YS5i, base64url.bearer.authorization.k8s.io.YS5i",
       })
    EXPECT_EQ(of_socket(bad).substr(0, 8), "refused:") << bad;
}

}  // namespace
}  // namespace lockstep::kube
