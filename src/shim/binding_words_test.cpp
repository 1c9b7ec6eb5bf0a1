#include "shim/binding_words.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

BoundTask task_on(std::vector<std::uint32_t> cores) {
  BoundTask task{"n1", 3, 1, {}, {}, {}};
  for (const auto core : cores) task.cores.set(core);
  return task;
}

TEST(BindingWords, AreSaidWhereTheyAreAskedFor) {
  EXPECT_EQ(binding_words({"SLURM_CPU_BIND_VERBOSE=quiet", "A=SLURM_CPU_BIND_VERBOSE=verbose"}, task_on({0})), "");
  EXPECT_EQ(binding_words({"SLURM_CPU_BIND_VERBOSE=verbose"}, task_on({0})),
            "cpu-bind=MASK - n1, task  3  1 [\x01p]: mask 0x1 set\n");
  EXPECT_EQ(binding_words({"SLURM_CPU_BIND_VERBOSE=verbose"}, task_on({4, 5, 9})),
            "cpu-bind=MASK - n1, task  3  1 [\x01p]: mask 0x230 set\n");
}

TEST(BindingWords, OfMemory) {
  BoundTask task = task_on({});
  EXPECT_EQ(binding_words({"SLURM_MEM_BIND_VERBOSE=verbose"}, task),
            "mem-bind=NONE - n1, task  3  1 [\x01p]: mask 0x0\n");
  task.memory = memory_policy("verbose,map_mem:1", 0);
  EXPECT_EQ(binding_words({"SLURM_MEM_BIND_VERBOSE=verbose"}, task),
            "mem-bind=MASK - n1, task  3  1 [\x01p]: mask 0x2 set\n");
  task.memory = memory_policy("verbose,local", 0);
  EXPECT_EQ(binding_words({"SLURM_MEM_BIND_VERBOSE=verbose"}, task),
            "mem-bind=LOC - n1, task  3  1 [\x01p]: mask 0x0 set\n");
}

TEST(BindingWords, OfGpusAreForTheShimAlone) {
  std::vector<std::string> variables = {"A=1", "LOCKSTEP_GPU_BINDING=usable_gres=0x1", "B=2"};
  BoundTask task = task_on({});
  task.gpus = take_gpu_binding(variables);
  EXPECT_EQ(variables, (std::vector<std::string>{"A=1", "B=2"}));
  EXPECT_EQ(binding_words(variables, task), "gpu-bind: usable_gres=0x1\n");
  EXPECT_EQ(take_gpu_binding(variables), "");
}

}  // namespace
}  // namespace lockstep
