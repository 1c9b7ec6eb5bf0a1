#include "io/jwt.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/temp_dir.h"

namespace lockstep {
namespace {

TEST(Jwt, WhatOneKeySignedItKnowsAgain) {
  const TempDir dir;
  const auto signer = JwtSigner::open_or_make(dir.path() + "/key");
  ASSERT_TRUE(signer.ok());
  const std::string token = (*signer)->sign(R"({"sub":"system:serviceaccount:default:a"})");
  EXPECT_EQ((*signer)->verify(token), R"({"sub":"system:serviceaccount:default:a"})");
  const auto again = JwtSigner::open_or_make(dir.path() + "/key");
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)->verify(token));
  EXPECT_EQ((*again)->key_set(), (*signer)->key_set());
}

TEST(Jwt, NothingElseIsTaken) {
  const TempDir dir;
  const auto signer = JwtSigner::open_or_make(dir.path() + "/key");
  const auto other = JwtSigner::open_or_make(dir.path() + "/other");
  ASSERT_TRUE(signer.ok() && other.ok());
  const std::string token = (*signer)->sign(R"({"sub":"a"})");
  EXPECT_FALSE((*other)->verify(token));
  for (std::size_t i = 0; i + 2 < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE((*signer)->verify(changed)) << i;
  }
  for (const std::string& bad : {std::string(), std::string("."), std::string(".."), std::string("a.b.c"),
                                 token.substr(0, token.rfind('.')), token + "A", token + ".",
                                 "eyJhbGciOiJub25lIn0." + token.substr(token.find('.') + 1), std::string(100'000, 'a')})
    EXPECT_FALSE((*signer)->verify(bad)) << bad.substr(0, 80);
}

TEST(Jwt, ADamagedKeyIsRefused) {
  const TempDir dir;
  std::ofstream(dir.path() + "/key") << "nonsense";
  EXPECT_EQ(JwtSigner::open_or_make(dir.path() + "/key").error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace lockstep
