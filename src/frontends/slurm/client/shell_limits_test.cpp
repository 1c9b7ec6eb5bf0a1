// Which limits travel, by --propagate.
#include "frontends/slurm/client/shell_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace lockstep::slurm {
namespace {

Variables with(const std::string& propagate) {
  Variables variables = {{"HOME", "/h"}, {"SLURM_RLIMIT_CPU", "of the job we are in"}};
  const auto done = put_shell_limits(variables, propagate);
  EXPECT_TRUE(done.ok()) << done.error().message;
  return variables;
}

TEST(ShellLimitsTest, TheSoftOnesTravelAsAsked) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  for (const char* all : {"", "ALL", "all"}) {
    const Variables sent = with(all);
    EXPECT_EQ(sent.size(), 11u) << "ten limits and what was there";
    ASSERT_NE(value_of(sent, "SLURM_RLIMIT_NOFILE"), nullptr);
    EXPECT_EQ(*value_of(sent, "SLURM_RLIMIT_NOFILE"), std::to_string(files.rlim_cur));
  }
  EXPECT_EQ(with("NONE"), (Variables{{"HOME", "/h"}}));
  const Variables two = with("stack,RLIMIT_NOFILE");
  EXPECT_EQ(two.size(), 3u);
  EXPECT_NE(value_of(two, "SLURM_RLIMIT_STACK"), nullptr);
  Variables none;
  EXPECT_EQ(put_shell_limits(none, "STACK,SPEED").error().field, "propagate");
}

}  // namespace
}  // namespace lockstep::slurm
