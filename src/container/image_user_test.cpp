#include "container/image_user.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr const char* kPasswd =
    "root:x:0:0:root:/root:/bin/sh\nweb:x:101:102:of the server:/srv:/bin/false\nbad:x:no\n";
constexpr const char* kGroup = "root:x:0:\nweb:x:102:\ndata:x:200:web,other\nlogs:x:201:other\n";

TEST(ImageUsers, are_found_by_name_and_number_with_their_groups) {
  EXPECT_EQ(*find_image_user("", {}, kPasswd, kGroup), (ImageUser{0, 0, {}, "/root"}));
  EXPECT_EQ(*find_image_user("web", {}, kPasswd, kGroup), (ImageUser{101, 102, {200}, "/srv"}));
  EXPECT_EQ(*find_image_user("101", {}, kPasswd, kGroup), (ImageUser{101, 102, {200}, "/srv"}));
  EXPECT_EQ(*find_image_user("web:data", {}, kPasswd, kGroup), (ImageUser{101, 200, {}, "/srv"}));
  EXPECT_EQ(*find_image_user("web:7", {}, kPasswd, kGroup), (ImageUser{101, 7, {}, "/srv"}));
}

TEST(ImageUsers, a_number_needs_no_line_and_a_name_does) {
  EXPECT_EQ(*find_image_user("1234", {}, kPasswd, kGroup), (ImageUser{1234, 0, {}, "/"}));
  EXPECT_EQ(*find_image_user("web", 1000, kPasswd, kGroup), (ImageUser{1000, 0, {}, "/"}));
  EXPECT_EQ(*find_image_user("", 101, kPasswd, kGroup), (ImageUser{101, 102, {200}, "/srv"}));
  EXPECT_FALSE(find_image_user("nobody", {}, kPasswd, kGroup).ok());
  EXPECT_FALSE(find_image_user("web:nobody", {}, kPasswd, kGroup).ok());
  EXPECT_EQ(find_image_user("1", {}, "", "")->uid, 1u);
}

}  // namespace
}  // namespace lockstep
