#include "io/gpus/gpu_sampler.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "io/gpus/test_gpus.h"

namespace lockstep {
namespace {

// A process with GPUs visible, until the end of the test.
class GpuUser {
 public:
  GpuUser(const char* visible, const char* load) : pid_(fork()) {
    if (pid_ == 0) {
      setenv("CUDA_VISIBLE_DEVICES", visible, 1);
      setenv("SIMULATED_GPU_LOAD", load, 1);
      execlp("sleep", "sleep", "100", nullptr);
      _exit(127);
    }
    // Its environment is its own once it is the program.
    for (std::string name; name != "sleep\n" && name != "\n";) {
      std::ifstream comm("/proc/" + std::to_string(pid_) + "/comm");
      name.assign(std::istreambuf_iterator<char>(comm), {});
    }
  }
  ~GpuUser() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(GpuSampler, NoDriverIsSaid) {
  const auto sampler = GpuSampler::open("libno-such-library.so.1");
  ASSERT_FALSE(sampler.ok());
  EXPECT_EQ(sampler.error().code, Errc::kNotFound);
}

TEST(GpuSampler, ReadsAnIdleGpu) {
  const TestGpus gpus("count = 2\ntype = h200\n");
  auto sampler = GpuSampler::open(TestGpus::library());
  ASSERT_TRUE(sampler.ok()) << sampler.error().message;
  const auto samples = sampler->sample();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_TRUE(samples[1].answers);
  EXPECT_EQ(samples[1].index, 1u);
  EXPECT_EQ(samples[1].memory_total_mb, 143771);
  EXPECT_EQ(samples[1].power_limit_mw, 700'000);
  EXPECT_EQ(samples[1].memory_mhz, 3201);
  EXPECT_EQ(samples[1].links_active, 18u);
  EXPECT_EQ(samples[1].links_down, 0u);
  EXPECT_EQ(samples[1].slowed, 0);
  EXPECT_EQ(samples[1].recovery, GpuRecovery::kNone);
  EXPECT_GE(samples[1].energy_mj, 0);
  EXPECT_TRUE(samples[1].xids.empty());
}

TEST(GpuSampler, ProcessesWithTheGpuVisibleUseIt) {
  const TestGpus gpus("count = 64\ntype = h100\n");
  const GpuUser user("61,62", "40,2000");
  auto sampler = GpuSampler::open(TestGpus::library());
  ASSERT_TRUE(sampler.ok());
  const auto samples = sampler->sample();
  EXPECT_EQ(samples[60].utilization, 0);
  for (const std::size_t gpu : {61, 62}) {
    EXPECT_EQ(samples[gpu].utilization, 40);
    EXPECT_EQ(samples[gpu].memory_used_mb, 2000 + 500) << "and what the driver keeps";
    EXPECT_EQ(samples[gpu].power_mw, 70'000 + 630'000 * 40 / 100);
    EXPECT_EQ(samples[gpu].sm_mhz, 1980);
    ASSERT_EQ(samples[gpu].processes.size(), 1u);
    EXPECT_EQ(samples[gpu].processes[0].pid, static_cast<std::uint32_t>(user.pid()));
    EXPECT_EQ(samples[gpu].processes[0].memory_mb, 2000);
    EXPECT_EQ(samples[gpu].processes[0].busy_percent, -1) << "it is alone";
  }
}

TEST(GpuSampler, ProcessesOfOneGpuAreToldApart) {
  const TestGpus gpus("count = 64\ntype = h100\n");
  const GpuUser one("63", "40,2000"), other("63", "20,1000");
  auto sampler = GpuSampler::open(TestGpus::library());
  ASSERT_TRUE(sampler.ok());
  auto processes = sampler->sample()[63].processes;
  ASSERT_EQ(processes.size(), 2u);
  for (const GpuProcess& process : processes) {
    const bool is_one = process.pid == static_cast<std::uint32_t>(one.pid());
    EXPECT_EQ(process.busy_percent, is_one ? 40 : 20);
    EXPECT_EQ(process.memory_mb, is_one ? 2000 : 1000);
  }
}

TEST(GpuSampler, FaultsShowWithoutOpeningItAgain) {
  const TestGpus gpus("count = 3\ntype = h100\n");
  auto sampler = GpuSampler::open(TestGpus::library());
  ASSERT_TRUE(sampler.ok());
  EXPECT_TRUE(sampler->sample()[0].xids.empty());
  gpus.add("fault = 0 xid=48");
  gpus.add("fault = 0 xid=13");
  gpus.add("fault = 1 throttle=thermal");
  auto samples = sampler->sample();
  EXPECT_EQ(samples[0].xids, (std::vector<std::uint32_t>{48, 13}));
  EXPECT_EQ(samples[0].ecc_uncorrected, 1);
  EXPECT_TRUE(samples[0].remap_pending);
  EXPECT_EQ(samples[0].recovery, GpuRecovery::kDrainAndReset);
  EXPECT_EQ(samples[1].slowed, kSlowedByHeat | kSlowedByHardware);
  EXPECT_EQ(GpuSampler::slowed_text(samples[1].slowed), "heat, hardware");
  EXPECT_EQ(samples[1].celsius, 91);
  gpus.add("fault = 2 xid=79");
  samples = sampler->sample();
  EXPECT_TRUE(samples[0].xids.empty()) << "each is told once";
  EXPECT_EQ(samples[2].xids, (std::vector<std::uint32_t>{79}));
  EXPECT_FALSE(samples[2].answers);
  EXPECT_FALSE(samples[2].uuid.empty()) << "what it was is known";
  gpus.write("count = 3\ntype = h100\n");
  EXPECT_TRUE(sampler->sample()[2].answers) << "mended";
}

TEST(GpuSampler, LinksThatAreDownAreCounted) {
  const TestGpus gpus("count = 1\ntype = a100\nfault = 0 link=3\nfault = 0 link=4\n");
  auto sampler = GpuSampler::open(TestGpus::library());
  ASSERT_TRUE(sampler.ok());
  const auto samples = sampler->sample();
  EXPECT_EQ(samples[0].links_active, 10u);
  EXPECT_EQ(samples[0].links_down, 2u);
}

// One look a second may cost a thousandth of a core. Most of it is the stand-in's look at the machine's processes, so
// the bound is for a sample between two of those.
TEST(GpuSampler, ASampleOfEightGpusIsCheap) {
  const TestGpus gpus("count = 8\ntype = h100\n");
  auto sampler = GpuSampler::open(TestGpus::library());
  ASSERT_TRUE(sampler.ok());
  sampler->sample();
  std::int64_t least = INT64_MAX;
  for (int i = 0; i < 20; ++i) {
    timespec from{}, to{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    EXPECT_EQ(sampler->sample().size(), 8u);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    least = std::min<std::int64_t>(least, (to.tv_sec - from.tv_sec) * 1'000'000 + (to.tv_nsec - from.tv_nsec) / 1000);
  }
  RecordProperty("microseconds", static_cast<int>(least));
  EXPECT_LE(least, 1000) << "microseconds of processor time";
}

}  // namespace
}  // namespace lockstep
