#include "container/enroot.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lockstep {
namespace {

std::string asked(std::vector<std::string> words) {
  const auto ask = parse_enroot(words);
  if (!ask.ok())
    return "error: " + ask.error().message;
  std::string out = format("{}", static_cast<int>(ask->verb));
  for (const auto& [on, mark] :
       {std::pair{ask->fancy, " fancy"}, {ask->force, " force"}, {ask->as_root, " root"}, {ask->writable, " rw"}})
    out += on ? mark : "";
  if (!ask->output.empty())
    out += " >" + ask->output;
  for (const std::string& one : ask->env) out += " env:" + one;
  for (const std::string& one : ask->mounts) out += " mount:" + one;
  for (const std::string& one : ask->words) out += " " + one;
  return out;
}

TEST(Enroot, CommandLines) {
  EXPECT_EQ(asked({}), "0");
  EXPECT_EQ(asked({"list"}), "1");
  EXPECT_EQ(asked({"list", "-f"}), "1 fancy");
  EXPECT_EQ(asked({"list", "--fancy"}), "1 fancy");
  EXPECT_EQ(asked({"remove", "-f", "pyxis_1_a", "pyxis_1_b"}), "2 force pyxis_1_a pyxis_1_b");
  EXPECT_EQ(asked({"export", "-f", "-o", "/a b.sqsh", "pyxis_1_a"}), "3 force >/a b.sqsh pyxis_1_a");
  EXPECT_EQ(asked({"export", "--output=/x", "--force", "--", "pyxis_1_a"}), "3 force >/x pyxis_1_a");
  EXPECT_EQ(asked({"import", "-ox.sqsh", "docker://ubuntu"}), "4 >x.sqsh docker://ubuntu");
  EXPECT_EQ(asked({"start", "-r", "-w", "-m", "/a:/b", "-e", "K=V", "pyxis_1_a", "sh", "-c", "-f"}),
            "5 root rw env:K=V mount:/a:/b pyxis_1_a sh -c -f");
}

TEST(Enroot, Refusals) {
  EXPECT_EQ(asked({"bundle", "x"}), "error: Invalid command: bundle");
  EXPECT_EQ(asked({"list", "x"}), "error: Invalid argument: x");
  EXPECT_EQ(asked({"list", "-o", "x"}), "error: Invalid option: -o");
  EXPECT_EQ(asked({"list", "-ff"}), "error: Invalid option: -ff");
  EXPECT_EQ(asked({"remove"}), "error: remove: a name is missing");
  EXPECT_EQ(asked({"export", "-o"}), "error: -o needs a value");
  EXPECT_EQ(asked({"export", "a", "b"}), "error: Invalid argument: b");
  EXPECT_EQ(asked({"import"}), "error: import: the image is missing");
  EXPECT_EQ(asked({"start", "--nonsense", "a"}), "error: Invalid option: --nonsense");
}

TEST(Enroot, NamesAreThoseOfPyxis) {
  EXPECT_EQ(enroot_name("12", "web_1"), "pyxis_12_web_1");
  const EnrootName name = parse_enroot_name("pyxis_12_web_1");
  EXPECT_EQ(name.job, "12");
  EXPECT_EQ(name.name, "web_1");
  for (const char* other : {"", "pyxis_", "pyxis_12", "pyxis_12_", "pyxis_x_web", "web", "pyxis_12_../../x",
                            "pyxis_12_.x", "pyxis_12_a/b", "pyxis_-1_a"})
    EXPECT_EQ(parse_enroot_name(other).job, "") << other;
  EXPECT_EQ(enroot_file_of("docker://nvcr.io#nvidia/cuda:12.0"), "nvidia+cuda+12.0.sqsh");
  EXPECT_EQ(enroot_file_of("ubuntu"), "ubuntu.sqsh");
}

}  // namespace
}  // namespace lockstep
