// The packing experiment on a small cluster of its own: reading, arrivals, the rivals' scores, and whole runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "simulate/workloads/pack_run.h"

namespace lockstep::sim {
namespace {

class PackTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path =
        format("{}pack_{}_{}", testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name(), name);
    std::FILE* file = std::fopen(path.c_str(), "w");
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    written_.push_back(path);
    return path;
  }
  void TearDown() override {
    for (const std::string& path : written_) std::remove(path.c_str());
  }
  // Forty nodes of three sorts; pods whose sizes pair up if one looks for the pairs, and a model some insist on.
  PackTrace small() {
    std::string nodes = "sn,cpu_milli,memory_mib,gpu,model\n";
    for (int i = 0; i < 40; ++i)
      nodes +=
          format("n{},{},262144,{},{}\n", i, i % 4 == 0 ? 96000 : 48000, i % 4 == 0 ? 8 : 4, i % 3 == 0 ? "B" : "A");
    std::string pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";
    const char* const kinds[] = {"2000,4096,1,700,",  "12000,4096,1,300,",  "11000,4096,1,1000,",  "6000,4096,1,550,",
                                 "14000,4096,1,440,", "3000,4096,1,1000,B", "24000,4096,4,1000,A", "8000,4096,0,0,"};
    for (int i = 0; i < 240; ++i) pods += format("p{:03},{}\n", i, kinds[i * 7 % 23 % 8]);
    return read_pack_trace(write("nodes.csv", nodes), write("pods.csv", pods)).value();
  }
  std::string nodes_error(const std::string& row) {
    const std::string path = write("bad.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,1000,10,1,A\n" + row + "\n");
    return read_pack_trace(path, "unused").error().message.substr(path.size());
  }
  std::string pods_error(const std::string& row) {
    const std::string nodes = write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,1000,10,1,A\n");
    const std::string path = write("bad.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + row + "\n");
    return read_pack_trace(nodes, path).error().message.substr(path.size());
  }

 private:
  std::vector<std::string> written_;
};

TEST_F(PackTest, DamagedListsAreToldByLineAndField) {
  EXPECT_EQ(nodes_error("n1,-5,10,1,A"), ":3: cpu_milli: -5 is not within 0 to 1000000000");
  EXPECT_EQ(nodes_error("n1,5,10,17,A"), ":3: gpu: 17 is not within 0 to 16");
  EXPECT_EQ(nodes_error("n1,5,10,1,"), ":3: model: the node has GPUs and no model");
  EXPECT_EQ(nodes_error("n1,5,10"), ":3: 3 fields where the header has 5");
  EXPECT_EQ(pods_error("p0,1,1,1,0,"), ":2: gpu_milli: 0 is not within 1 to 1000");
  EXPECT_EQ(pods_error("p0,1,1,99,1000,"), ":2: num_gpu: 99 is not within 0 to 16");
  EXPECT_EQ(pods_error("p0,1,1,1,many,"), ":2: gpu_milli: \"many\" is not a whole number");
  EXPECT_EQ(pods_error("p0,1,1,1,500,A||B"), ":2: gpu_spec: \"A||B\" has an empty model");
  EXPECT_EQ(pods_error("p0,1,1,0,0,"), ": no pod asks for a GPU");
}

TEST_F(PackTest, ShapesAreDistinctAndSpecsAreMasks) {
  const PackTrace trace = small();
  EXPECT_EQ(trace.shapes.size(), 8u);
  EXPECT_EQ(trace.gpu_milli, 200'000);
  EXPECT_EQ(trace.kinds, (std::vector<std::string>{"B", "A"}));
  const auto gang =
      std::find_if(trace.shapes.begin(), trace.shapes.end(), [](auto& shape) { return shape.devices == 4; });
  ASSERT_NE(gang, trace.shapes.end());
  EXPECT_EQ(gang->kinds, 0b10u);
}

TEST_F(PackTest, ArrivalsReachTheDemandAndFollowTheSeed) {
  const PackTrace trace = small();
  const auto asked = [&](const std::vector<std::uint32_t>& arrivals) {
    std::int64_t sum = 0;
    for (const std::uint32_t shape : arrivals) sum += trace.shapes[shape].gpu_milli();
    return sum;
  };
  Rng one(5), same(5), other(6);
  const auto arrivals = make_arrivals(trace, 130, one);
  EXPECT_EQ(arrivals, make_arrivals(trace, 130, same));
  EXPECT_NE(arrivals, make_arrivals(trace, 130, other));
  EXPECT_GT(asked(arrivals), 255'000);
  EXPECT_LT(asked(arrivals), 264'000);  // a gang counts one device in the test that ends it
  EXPECT_EQ(std::count(arrivals.begin(), arrivals.end(), 0u) > 0, true);
  const auto thinned = make_arrivals(trace, 20, one);
  EXPECT_LT(thinned.size(), trace.pods.size());
  EXPECT_LT(asked(thinned), 44'000);
}

TEST_F(PackTest, FragmentationCountsWhatTypicalRequestsCannotUse) {
  const std::string nodes = write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,10,2,A\n");
  const std::string pods = write("pods.csv",
                                 "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
                                 "a,4000,1,1,500\nb,4000,1,1,500\nc,9000,1,1,1000\nd,1000,1,0,0\n");
  const PackTrace trace = read_pack_trace(nodes, pods).value();
  const Fragmentation fragmentation(trace);
  PackRoom room = trace.nodes[0];
  EXPECT_DOUBLE_EQ(fragmentation.of(room), 0.5 * 2000);  // c lacks cores and d wants no GPU; a and b can use all
  room.free_milli[0] = 400;
  EXPECT_DOUBLE_EQ(fragmentation.of(room), 0.5 * 400 + 0.5 * 1400);
}

TEST_F(PackTest, RunsAreRepeatableAndTheDefaultPacksBest) {
  const PackTrace trace = small();
  const Fragmentation fragmentation(trace);
  const auto mean = [&](PackRule rule, int percent) {
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
      sum += run_pack(trace, rule, seed, &fragmentation).alloc_pct[static_cast<std::size_t>(percent)] / 6;
    return sum;
  };
  const PackCurve one = run_pack(trace, PackRule::kDefaultOnline, 3, &fragmentation);
  const PackCurve same = run_pack(trace, PackRule::kDefaultOnline, 3, &fragmentation);
  EXPECT_EQ(one.alloc_pct, same.alloc_pct);
  EXPECT_EQ(one.frag_pct, same.frag_pct);
  EXPECT_NEAR(mean(PackRule::kDefaultKnown, 50), 50, 2);
  const double fgd = mean(PackRule::kFgd, 100);
  EXPECT_GT(mean(PackRule::kDefaultKnown, 100), fgd + 1.5);
  EXPECT_GT(mean(PackRule::kDefaultOnline, 100), fgd + 1.5);
  EXPECT_GT(mean(PackRule::kBestFit, 100), mean(PackRule::kRandom, 100) + 5);
}

}  // namespace
}  // namespace lockstep::sim
