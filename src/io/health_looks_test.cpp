#include "io/health_looks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/text.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

std::string words(const std::vector<MachineFinding>& found) {
  std::string out;
  for (const MachineFinding& one : found)
    out += format("{} {}: {}\n", one.check, one.bad ? "bad" : "suspect", one.evidence);
  return out;
}

TEST(HealthLooks, DisksHaveRoomAndAreThere) {
  const TempDir dir;
  MemoryErrors memory;
  HealthPlaces places{.disks = {dir.path()},
                      .mounts = {},
                      .full_percent = 100,
                      .off = {},
                      .edac = dir.path(),
                      .over = {},
                      .socket = {}};
  EXPECT_EQ(words(look_at_machine(places, memory, {})), "");
  places.disks = {dir.path() + "/missing"};
  EXPECT_EQ(words(look_at_machine(places, memory, {})),
            format("disk bad: {}/missing: No such file or directory\n", dir.path()));
  places.off = {kHealthDisk};
  EXPECT_EQ(words(look_at_machine(places, memory, {})), "");
  EXPECT_EQ(machine_checks(places), (std::vector<std::string>{"mount", "memory", "leftover"}));
}

TEST(HealthLooks, MountsAreMountedAndAnswer) {
  const TempDir dir;
  MemoryErrors memory;
  const HealthPlaces places{
      .disks = {}, .mounts = {"/proc", dir.path()}, .off = {}, .edac = dir.path(), .over = {}, .socket = {}};
  EXPECT_EQ(words(look_at_machine(places, memory, {})), format("mount bad: {} is not mounted\n", dir.path()));
}

TEST(HealthLooks, MemoryErrorsAreTheKernelsCount) {
  const TempDir dir;
  const auto count = [&](const char* controller, const char* what, int number) {
    ::mkdir((dir.path() + "/" + controller).c_str(), 0755);
    std::ofstream(format("{}/{}/{}", dir.path(), controller, what)) << number << "\n";
  };
  MemoryErrors memory;
  const HealthPlaces places{.disks = {}, .mounts = {}, .off = {}, .edac = dir.path(), .over = {}, .socket = {}};
  count("mc0", "ce_count", 3);
  count("mc1", "ce_count", 2);
  EXPECT_EQ(words(look_at_machine(places, memory, {})), "memory suspect: 5 errors were corrected\n");
  EXPECT_EQ(words(look_at_machine(places, memory, {})), "") << "none since";
  count("mc1", "ue_count", 1);
  EXPECT_EQ(words(look_at_machine(places, memory, {})),
            "memory bad: errors that could not be corrected since the machine started\n");
}

}  // namespace
}  // namespace lockstep
