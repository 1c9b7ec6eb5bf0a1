#include "container/oci_config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "container/documents.h"

namespace lockstep {
namespace {

std::string caps(const ContainerRights& rights) {
  const auto given = capabilities_of(rights);
  return given.ok() ? join(*given, " ") : given.error().message;
}

TEST(OciRights, are_the_usual_ones_with_what_is_added_and_dropped) {
  const std::string usual = caps({});
  EXPECT_EQ(split(usual, ' ').size(), 14u);
  EXPECT_NE(usual.find("CAP_CHOWN"), usual.npos);
  EXPECT_EQ(usual.find("CAP_SYS_ADMIN"), usual.npos);
  EXPECT_EQ(caps({.drop_capabilities = {"ALL"}}), "");
  EXPECT_EQ(caps({.add_capabilities = {"NET_ADMIN"}, .drop_capabilities = {"ALL"}}), "CAP_NET_ADMIN");
  EXPECT_EQ(caps({.drop_capabilities = {"CAP_CHOWN"}}).find("CAP_CHOWN"), std::string::npos);
  EXPECT_EQ(split(caps({.add_capabilities = {"ALL"}}), ' ').size(), 41u);
  EXPECT_EQ(split(caps({.privileged = true}), ' ').size(), 41u);
  EXPECT_EQ(caps({.add_capabilities = {"FLY"}}), "there is no capability FLY");
}

TEST(OciConfigs, say_who_runs_what_where) {
  OciPlan plan;
  plan.argv = {"sh", "-c", "a \"quoted\" word"};
  plan.env = {"A=b"};
  plan.user = {1000, 100, {5, 6}, "/"};
  plan.group = "/jobs/1/web.0";
  plan.memory_bytes = 1 << 20;
  plan.milli_cores = 250;
  plan.cpu_weight = 100;
  plan.mounts = {{"/on/node", "/inside", true, {"nosuid"}}};
  plan.rights.read_only_root = true;
  const auto text = oci_config(plan);
  ASSERT_TRUE(text.ok());
  const auto document = read_document(*text, "config.json");
  ASSERT_TRUE(document.ok()) << *text;
  EXPECT_EQ(text_of(document->child("root")->child("readonly")), "true");
  const YamlNode* process = document->child("process");
  EXPECT_EQ(texts_of(process->child("args")), plan.argv);
  EXPECT_EQ(text_of(process->child("user")->child("uid")), "1000");
  EXPECT_EQ(texts_of(process->child("user")->child("additionalGids")), (std::vector<std::string>{"5", "6"}));
  const YamlNode* resources = document->child("linux")->child("resources");
  EXPECT_EQ(text_of(resources->child("memory")->child("limit")), "1048576");
  EXPECT_EQ(text_of(resources->child("cpu")->child("quota")), "25000");
  EXPECT_EQ(text_of(resources->child("pids")->child("limit")), "32768");
  EXPECT_EQ(text_of(resources->child("cpu")->child("shares")), "102");
  EXPECT_NE(
      text->find(R"({"destination":"/inside","type":"bind","source":"/on/node","options":["rbind","ro","nosuid"]})"),
      text->npos);
  EXPECT_NE(text->find("seccomp"), text->npos);
  EXPECT_NE(text->find("maskedPaths"), text->npos);
}

TEST(OciConfigs, a_privileged_one_is_kept_from_nothing) {
  OciPlan plan;
  plan.argv = {"sh"};
  plan.rights.privileged = true;
  const auto text = oci_config(plan);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->find("seccomp"), text->npos);
  EXPECT_EQ(text->find("maskedPaths"), text->npos);
  EXPECT_NE(text->find(R"("devices":[{"allow":true,"access":"rwm"}])"), text->npos);
}

TEST(OciConfigs, what_runs_beside_it_is_the_same_but_for_its_words) {
  OciPlan plan;
  plan.argv = {"sh"};
  plan.user.uid = 7;
  const auto head = oci_process_head(plan);
  ASSERT_TRUE(head.ok());
  const auto document = read_document(*head + R"(,"terminal":false,"args":["id"]})", "process");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(text_of(document->child("user")->child("uid")), "7");
  EXPECT_EQ(texts_of(document->child("args")), (std::vector<std::string>{"id"}));
}

TEST(OciRights, all_capabilities_are_those_at_hand) {
  ContainerRights rights;
  rights.privileged = true;
  const auto some = capabilities_of(rights, ~(std::uint64_t{1} << 24));
  const auto every = capabilities_of(rights);
  ASSERT_TRUE(some.ok() && every.ok());
  EXPECT_EQ(some->size() + 1, every->size());
  EXPECT_EQ(std::ranges::count(*some, "CAP_SYS_RESOURCE"), 0);
  EXPECT_EQ(std::ranges::count(*every, "CAP_SYS_RESOURCE"), 1);
}

}  // namespace
}  // namespace lockstep
