#include "shim/sandbox_network.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/text.h"

namespace lockstep {
namespace {

TEST(SandboxNetwork, TheAddressIsReadFromWhatThePluginAnswers) {
  EXPECT_EQ(*address_in(
                R"({"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.77.128.2/25","gateway":"10.77.128.1"}]})"),
            "10.77.128.2");
  EXPECT_EQ(*address_in("{\n  \"ips\": [ { \"address\": \"10.0.0.9/8\" } ] }"), "10.0.0.9");
  for (const char* answer : {"", "{}", R"({"address":)", R"({"address":"x/1"})", R"({"address":"10.0.0.1)"})
    EXPECT_FALSE(address_in(answer).ok()) << answer;
}

TEST(SandboxNetwork, APluginThatIsMissingIsNamed) {
  const auto missing = check_plugins("/no/such/folder");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("/no/such/folder/ptp"), std::string::npos);
  EXPECT_NE(missing.error().message.find("containernetworking-plugins"), std::string::npos);
}

TEST(SandboxNetwork, TheConfigurationNamesRangeAndFolder) {
  const std::string text = plugin_configuration({"web-0", "10.77.128.0/25"}, "/run/x/addresses");
  EXPECT_NE(text.find(R"("subnet":"10.77.128.0/25")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("dataDir":"/run/x/addresses")"), std::string::npos) << text;
  EXPECT_EQ(text.find("{{"), std::string::npos) << text;
}

struct Kept {
  Kept() {
    char name[] = "/tmp/lockstep-addresses-XXXXXX";
    folder = ::mkdtemp(name);
    ::mkdir((folder + "/lockstep").c_str(), 0700);
    write("10.0.0.2", "12-1-task-0.0.1\r\neth0");
    write("10.0.0.3", "13-1-task-0.0.1\r\neth0");
    write("last_reserved_ip.0", "10.0.0.3");
  }
  ~Kept() { [[maybe_unused]] const int gone = ::system(("rm -r " + folder).c_str()); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder + "/lockstep/" + name) << text;
  }
  bool has(const std::string& name) const { return ::access((folder + "/lockstep/" + name).c_str(), F_OK) == 0; }
  std::string folder;
};

TEST(SandboxNetwork, AnAddressIsLetGoWithItsSandboxAlone) {
  const Kept kept;
  release_address_of(kept.folder, "12-1-task-0.0.1");
  EXPECT_FALSE(kept.has("10.0.0.2"));
  EXPECT_TRUE(kept.has("10.0.0.3"));
  EXPECT_TRUE(kept.has("last_reserved_ip.0"));
  release_address_of(kept.folder + "/none", "13-1-task-0.0.1");
}

TEST(SandboxNetwork, AtAStartOnlyThoseThatLiveKeepTheirs) {
  const Kept kept;
  release_addresses_but(kept.folder, {"12-1-task-0.0.1"});
  EXPECT_TRUE(kept.has("10.0.0.2"));
  EXPECT_FALSE(kept.has("10.0.0.3"));
}

}  // namespace
}  // namespace lockstep
