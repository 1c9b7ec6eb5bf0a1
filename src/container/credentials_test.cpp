#include "container/credentials.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const char* variable(const char* name) { return std::string_view(name) == "WORD" ? "from the environment" : nullptr; }

TEST(Credentials, LinesOfNetrc) {
  constexpr const char* kFile =
      "machine nvcr.io login $oauthtoken password key\n"
      "machine reg.io login ann password ${WORD}\nmachine reg.io\n  login bob\n  password $WORD\n"
      "machine last.io login x";
  EXPECT_EQ(find_credentials(kFile, "nvcr.io", "", variable), (Credentials{"$oauthtoken", "key"}));
  EXPECT_EQ(find_credentials(kFile, "reg.io", "", variable), (Credentials{"ann", "from the environment"}));
  EXPECT_EQ(find_credentials(kFile, "reg.io", "bob", variable), (Credentials{"bob", "from the environment"}));
  EXPECT_EQ(find_credentials(kFile, "reg.io", "eve", variable), std::nullopt);
  EXPECT_EQ(find_credentials(kFile, "else.io", "", variable), std::nullopt);
  EXPECT_EQ(find_credentials(kFile, "last.io", "", variable), (Credentials{"x", ""}));
  EXPECT_EQ(find_credentials("", "reg.io", "", variable), std::nullopt);
}

TEST(Credentials, AreForWhatTheyName) {
  EXPECT_TRUE(login_is_for("reg.io", "reg.io/team/tool"));
  EXPECT_TRUE(login_is_for("https://index.docker.io/v1/", "docker.io/library/box"));
  EXPECT_TRUE(login_is_for("reg.io:5000/v2/", "reg.io:5000/team/tool"));
  EXPECT_TRUE(login_is_for("reg.io/team", "reg.io/team/tool"));
  EXPECT_TRUE(login_is_for("reg.io/team/", "reg.io/team"));
  EXPECT_TRUE(login_is_for("*.example.com", "eu.example.com/a"));
  EXPECT_FALSE(login_is_for("*.example.com", "example.com/a"));
  EXPECT_FALSE(login_is_for("*.com", "eu.example.com/a"));
  EXPECT_FALSE(login_is_for("reg.io", "reg.io:5000/team/tool"));
  EXPECT_FALSE(login_is_for("reg.io/team", "reg.io/teamwork/tool"));
  EXPECT_FALSE(login_is_for("reg.io", "reg.io.evil.org/a"));
  EXPECT_FALSE(login_is_for("", "reg.io/a"));
}

TEST(Credentials, DockersFile) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("a"), "YQ==");
  EXPECT_EQ(base64("ab"), "YWI=");
  EXPECT_EQ(base64("abc"), "YWJj");
  EXPECT_EQ(base64("\xff\xfe\xfd\xfc"), "//79/A==");
  EXPECT_EQ(docker_auth_file("reg.io:5000", {"ann", "word"}), R"({"auths":{"reg.io:5000":{"auth":"YW5uOndvcmQ="}}})");
}

}  // namespace
}  // namespace lockstep
