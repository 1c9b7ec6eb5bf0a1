#include "rules/admission.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    User user;
    user.id = UserId(1);
    user.meta.name = "ann";
    directory.users[user.id] = std::make_shared<const User>(user);
    partition.meta.name = "main";
    node.meta.name = "n1";
    node.id = NodeId(1);
    node.cores = 8;
    Device device;
    device.type = "h100";
    node.devices.assign(4, device);
    spec.user = UserId(1);
    GroupSpec group;
    group.per_node.devices = {{"gpu", "", 2}};
    spec.groups = {group};
    Grant grant;
    grant.node = NodeId(1);
    grant.cores = CoreSet::first_n(2);
    grant.devices = DeviceSet::first_n(2);
    grants = {grant};
  }
  std::optional<Bar> bar(const StartAsk& ask) {
    return first_bar(directory, ledger, ask, Instant{1'000'000}, WallTime{1'000'000}, [this]() -> const Spendings& {
      spendings.emplace(directory, std::span<const RunningUse>{}, Instant{1'000'000}, Instant{});
      return *spendings;
    });
  }
  std::optional<Bar> placed() { return bar(start_ask(spec, partition, grants, {&node}, hours(1))); }
  std::optional<Bar> unplaced() { return bar(start_ask(spec, partition, hours(1))); }

  Directory directory;
  Ledger ledger;
  Partition partition;
  Node node;
  JobSpec spec;
  std::vector<Grant> grants;
  std::optional<Spendings> spendings;
};

TEST_F(AdmissionTest, NothingBars) {
  EXPECT_FALSE(placed());
  EXPECT_FALSE(unplaced());
}

TEST_F(AdmissionTest, Limits) {
  auto qos = std::make_shared<Qos>();
  qos->meta.name = spec.qos = "gold";
  qos->limits.max_tres_per_node.gpus = 1;
  directory.qos["gold"] = qos;
  EXPECT_FALSE(unplaced());  // it depends on the place
  ASSERT_TRUE(placed());
  EXPECT_EQ(placed()->wait, Wait::kLimit);
  EXPECT_TRUE(placed()->detail.starts_with("QOSMaxGRESPerNode: "));
  qos->limits = {};
  qos->limits.grp_tres.gpus = 1;
  ASSERT_TRUE(unplaced());
  EXPECT_TRUE(unplaced()->lasting);
  partition.deny_qos = {"gold"};
  EXPECT_EQ(unplaced()->detail, "QOSNotAllowed");
}

TEST_F(AdmissionTest, LicencesAndReservations) {
  spec.licenses = "matlab";
  ASSERT_TRUE(unplaced());
  EXPECT_EQ(unplaced()->wait, Wait::kLicenses);
  spec.licenses.clear();
  Reservation r;
  r.meta.name = "class";
  r.start = WallTime{1'000'000 + minutes(30).us};
  r.duration = hours(1);
  r.nodes = {"n1"};
  r.users = {"ann"};
  directory.reservations["class"] = std::make_shared<const Reservation>(r);
  EXPECT_FALSE(unplaced());  // other nodes may do
  ASSERT_TRUE(placed());
  EXPECT_EQ(placed()->wait, Wait::kNodesUnavailable);
  EXPECT_EQ(placed()->detail, "Reserved for class");
  EXPECT_EQ(placed()->until.us, r.start.us + r.duration.us);
  spec.reservation = "class";
  ASSERT_TRUE(unplaced());
  EXPECT_EQ(unplaced()->wait, Wait::kReservation);
  EXPECT_EQ(unplaced()->until, r.start);
  spec.reservation = "gone";
  EXPECT_TRUE(unplaced()->lasting);
}

}  // namespace
}  // namespace lockstep
