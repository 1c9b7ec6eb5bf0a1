#include "cli/installed_conf.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr const char* kText =
    "# LISTEN=nowhere\n"
    "LISTEN=127.0.0.1:6820\n"
    "\n"
    "CLUSTER_NAME=\"alpha\"  \n"
    "OPTIONS='--defragment --move-after 60'\n";

TEST(InstalledConf, ReadsWhatSystemdWouldRead) {
  EXPECT_EQ(setting_in(kText, "LISTEN"), "127.0.0.1:6820");
  EXPECT_EQ(setting_in(kText, "CLUSTER_NAME"), "alpha");
  EXPECT_EQ(setting_in(kText, "OPTIONS"), "--defragment --move-after 60");
  EXPECT_EQ(setting_in(kText, "LIST"), "");
  EXPECT_EQ(setting_in("LISTEN=a:1\nLISTEN=b:2\n", "LISTEN"), "b:2") << "the last one counts";
}

TEST(InstalledConf, AChangeKeepsCommentsAndOtherLines) {
  EXPECT_EQ(with_setting(kText, "LISTEN", "0.0.0.0:7000"),
            "# LISTEN=nowhere\n"
            "LISTEN=0.0.0.0:7000\n"
            "\n"
            "CLUSTER_NAME=\"alpha\"  \n"
            "OPTIONS='--defragment --move-after 60'\n");
  EXPECT_EQ(with_setting("# empty", "LISTEN", "a:1"), "# empty\nLISTEN=a:1\n");
  EXPECT_EQ(with_setting("", "LISTEN", "a:1"), "LISTEN=a:1\n");
}

}  // namespace
}  // namespace lockstep
