#include "container/task_environment.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

TEST(TaskEnvironment, TheImageWinsButForWhatIsKept) {
  const ImageConfig image{{"PATH=/bin", "A=image", "B=image", "C=image"}, {}, {}, "/"};
  Container container;
  container.keep_env = {"B", "C"};
  const Words env = task_environment({"A=job", "B=job", "HOME=/home/ann", "PATH=/usr/bin"}, image, container);
  EXPECT_EQ(env, (Words{"A=image", "B=job", "HOME=/home/ann", "PATH=/bin", "C=image"}));
}

TEST(TaskEnvironment, RootsHome) {
  Container container;
  container.remap_root = true;
  EXPECT_EQ(value_in(task_environment({"HOME=/home/ann"}, {}, container), "HOME"), "/root");
  container.keep_env = {"HOME"};
  EXPECT_EQ(value_in(task_environment({"HOME=/home/ann"}, {}, container), "HOME"), "/home/ann");
}

TEST(TaskEnvironment, TheHomeOutsideIsNotForgotten) {
  const ImageConfig image{{"HOME=/srv"}, {}, {}, "/"};
  const Words first = task_environment({"HOME=/home/ann", "PATH=/bin"}, image, {});
  EXPECT_EQ(first, (Words{"HOME=/srv", "PATH=/bin", "LOCKSTEP_OUTER_HOME=/home/ann"}));
  const ImageConfig other{{"HOME=/opt"}, {}, {}, "/"};
  EXPECT_EQ(task_environment(first, other, {}), (Words{"HOME=/opt", "PATH=/bin", "LOCKSTEP_OUTER_HOME=/home/ann"}));
  EXPECT_EQ(value_in(task_environment({"HOME=/home/ann"}, {}, {}), kOuterHome), "");
}

TEST(TaskEnvironment, PyTorchFindsItsWorld) {
  const ImageConfig image{{"PYTORCH_VERSION=2.2"}, {}, {}, "/"};
  const Words given = {"SLURM_PROCID=3", "SLURM_LOCALID=1",           "SLURM_NTASKS=4",
                       "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[2-3]", "MASTER_PORT=1234"};
  const Words env = task_environment(given, image, {});
  EXPECT_EQ(value_in(env, "RANK"), "3");
  EXPECT_EQ(value_in(env, "LOCAL_RANK"), "1");
  EXPECT_EQ(value_in(env, "WORLD_SIZE"), "4");
  EXPECT_EQ(value_in(env, "MASTER_ADDR"), "n2");
  EXPECT_EQ(value_in(env, "MASTER_PORT"), "1234");
  EXPECT_EQ(value_in(task_environment(given, {}, {}), "RANK"), "");
}

TEST(TaskEnvironment, ProgramsInThePath) {
  EXPECT_EQ(candidates_for("/bin/sh", "/a:/b"), Words{"/bin/sh"});
  EXPECT_EQ(candidates_for("./sh", "/a"), Words{"./sh"});
  EXPECT_EQ(candidates_for("sh", "/a::/b"), (Words{"/a/sh", "./sh", "/b/sh"}));
}

}  // namespace
}  // namespace lockstep
