// Whose word counts for how much: every way in, with every kind of caller.
#include "controller/identity.h"

#include <gtest/gtest.h>

#include "controller/try_guard.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kAnnUid = 1000, kAdmin = 1001, kStranger = 1002;

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    put_user(1, "root", 0, false);
    put_user(2, "ann", kAnnUid, false);
    put_user(3, "admin", kAdmin, true);
    put_node("n1", 1, false);
    put_node("trusted", 2, true);
    for (std::uint32_t user = 1; user <= 3; ++user)
      for (std::uint32_t node = 1; node <= 2; ++node) put_job(user * 10 + node, user, node, JobState::kRunning);
  }

  template <class T>
  void put(T record) {
    view.apply(std::vector<Change>{Change{++seq, std::make_shared<const T>(std::move(record)), false}}, now);
  }
  void put_user(std::uint32_t id, const std::string& name, std::uint32_t uid, bool admin) {
    User user;
    user.meta.name = name;
    user.id = UserId{id};
    user.uid = uid;
    user.admin = admin;
    put(user);
  }
  void put_node(const std::string& name, std::uint32_t id, bool trusted) {
    Node node;
    node.meta.name = name;
    node.id = NodeId{id};
    node.trust_administrators = trusted;
    put(node);
  }
  void put_job(std::uint64_t id, std::uint32_t user, std::uint32_t node, JobState state,
               MemberState member = MemberState::kRunning) {
    JobSpec spec;
    spec.user = UserId{user};
    spec.kill_wait = seconds(30);
    Job job;
    job.id = JobId{id};
    job.spec = std::make_shared<const JobSpec>(std::move(spec));
    job.state = state;
    if (holds_allocation(state)) {
      Allocation allocation;
      allocation.grants.resize(1);
      allocation.grants[0].node = NodeId{node};
      job.allocation = std::make_shared<const Allocation>(std::move(allocation));
      job.members = {member};
    }
    put(job);
  }

  Who from(const std::string& node, std::uint32_t uid, const std::string& realm = {}) {
    Peer peer;
    peer.how = Peer::How::kForwarded;
    peer.uid = peer.gid = uid;
    peer.realm = realm;
    peer.certificate_name = "node:" + node;
    return identify(peer, view, 0, now);
  }
  Who on_socket(std::uint32_t uid, std::uint32_t own_uid = 0) {
    Peer peer;
    peer.how = Peer::How::kUnixSocket;
    peer.uid = peer.gid = uid;
    return identify(peer, view, own_uid, now);
  }

  Instant now{1'000'000'000};
  Seq seq = 0;
  LiveView view{{}};
};

TEST_F(IdentityTest, OnTheControllersSocketTheKernelSaysWhoItIs) {
  EXPECT_TRUE(on_socket(0).caller.admin);
  EXPECT_FALSE(on_socket(kAnnUid).caller.admin);
  EXPECT_TRUE(on_socket(kAnnUid, kAnnUid).caller.admin);  // whose controller it is
  EXPECT_TRUE(on_socket(kAdmin).caller.admin);
  EXPECT_EQ(on_socket(kStranger).kind, Who::Kind::kNewUser);
  EXPECT_FALSE(on_socket(kStranger).caller.admin);
  for (const std::uint32_t uid : {0u, kAnnUid, kAdmin, kStranger}) EXPECT_FALSE(on_socket(uid).caller.only_on);
}

TEST_F(IdentityTest, ACertificateAloneSpeaksForNobody) {
  EXPECT_EQ(identify({}, view, 0, now).kind, Who::Kind::kNobody);
  for (const char* role : {"compute", "broker:local", "admin", "controller"}) {
    Peer peer;
    peer.how = Peer::How::kCertificate;
    peer.certificate_role = role;
    peer.certificate_name = "node:n1";
    EXPECT_EQ(identify(peer, view, 0, now).kind, Who::Kind::kAgent) << role;
    peer.certificate_name = "somebody";
    EXPECT_EQ(identify(peer, view, 0, now).kind, Who::Kind::kNobody) << role;
  }
}

TEST_F(IdentityTest, WhoseControllerItIsRulesWithACertificateToo) {
  Peer peer;
  peer.how = Peer::How::kCertificate;
  peer.certificate_role = kUserRole;
  const auto rules = [&](const char* name, std::uint32_t own_uid) {
    peer.certificate_name = name;
    const Who who = identify(peer, view, own_uid, now);
    EXPECT_EQ(who.kind, Who::Kind::kUser);
    return who.caller.admin;
  };
  EXPECT_TRUE(rules("user:ann", kAnnUid));
  EXPECT_FALSE(rules("user:ann", 0));
  EXPECT_TRUE(rules("user:root", kAnnUid));
  User far;
  far.meta.name = "far";
  far.id = UserId{9};
  far.uid = kAnnUid;
  far.realm = "elsewhere";
  put(far);
  EXPECT_FALSE(rules("user:far", kAnnUid)) << "another machine's number";
}

TEST_F(IdentityTest, AComputeNodeSpeaksForOwnersOnlyAndNeverAsAdministrator) {
  EXPECT_EQ(from("n1", kAnnUid).caller.user, UserId{2});
  EXPECT_FALSE(from("n1", kAnnUid).caller.only_on);
  EXPECT_EQ(from("n1", kStranger).kind, Who::Kind::kRefused);
  EXPECT_EQ(from("gone", kAnnUid).kind, Who::Kind::kRefused);

  EXPECT_EQ(from("n1", kAdmin).kind, Who::Kind::kUser);
  EXPECT_FALSE(from("n1", kAdmin).caller.admin);
  EXPECT_FALSE(from("n1", 0).caller.admin);
  EXPECT_EQ(from("n1", 0).caller.only_on, NodeId{1});
  EXPECT_EQ(from("n1", 0).root_of, NodeId{1});
  EXPECT_FALSE(from("n1", kAnnUid).root_of);
  EXPECT_FALSE(from("trusted", 0).root_of) << "it may do more";

  EXPECT_TRUE(from("trusted", kAdmin).caller.admin);
  EXPECT_TRUE(from("trusted", 0).caller.admin);
  EXPECT_FALSE(from("trusted", 0).caller.only_on);
  EXPECT_FALSE(from("trusted", kAnnUid).caller.admin);
  EXPECT_EQ(from("trusted", kStranger).kind, Who::Kind::kRefused);
}

TEST_F(IdentityTest, AComputeNodeSpeaksForNobodyWhoseJobHasEnded) {
  put_job(21, 2, 1, JobState::kCompleting);
  EXPECT_EQ(from("n1", kAnnUid).kind, Who::Kind::kUser);  // its processes may still have a word to say
  now = now + minutes(2);
  EXPECT_EQ(from("n1", kAnnUid).kind, Who::Kind::kRefused);  // though the node does not confirm that they are gone
  put_job(21, 2, 1, JobState::kCompleting);
  EXPECT_EQ(from("n1", kAnnUid).kind, Who::Kind::kRefused);  // and the end is not told anew
  put_job(21, 2, 1, JobState::kCompleted);
  EXPECT_EQ(from("n1", kAnnUid).kind, Who::Kind::kRefused);
  EXPECT_EQ(from("trusted", kAnnUid).kind, Who::Kind::kUser);
}

TEST_F(IdentityTest, APartThatHasStoppedIsNoReasonToSpeak) {
  put_job(21, 2, 1, JobState::kRunning, MemberState::kStopped);
  EXPECT_EQ(from("n1", kAnnUid).kind, Who::Kind::kRefused);
  EXPECT_FALSE(view.holds(JobId{21}, NodeId{1}));
}

TEST_F(IdentityTest, ABrokerSpeaksForItsUsersButNotForRoot) {
  EXPECT_EQ(from("n1", 0, "local").kind, Who::Kind::kRefused);
  EXPECT_EQ(from("n1", 0, "elsewhere").kind, Who::Kind::kRefused);
  EXPECT_TRUE(from("trusted", 0, "local").caller.admin);
  EXPECT_EQ(from("n1", kAnnUid, "local").caller.user, UserId{2});
  EXPECT_FALSE(from("n1", kAdmin, "local").caller.admin);
  EXPECT_TRUE(from("trusted", kAdmin, "local").caller.admin);

  const Who stranger = from("n1", kStranger, "elsewhere");
  EXPECT_EQ(stranger.kind, Who::Kind::kNewUser);
  EXPECT_EQ(stranger.user.meta.name, "elsewhere-uid1002");
  EXPECT_EQ(stranger.user.realm, "elsewhere");
  EXPECT_FALSE(stranger.caller.admin);
}

TEST_F(IdentityTest, ABrokersWordGivesNobodyRootsGroup) {
  Peer peer;
  peer.how = Peer::How::kForwarded;
  peer.uid = kStranger;
  peer.gid = 0;
  peer.realm = "elsewhere";
  peer.certificate_name = "node:n1";
  EXPECT_EQ(identify(peer, view, 0, now).user.gid, 65534u);
  peer.gid = 6;  // of the controller's own database, which says itself who is in it
  peer.realm = "local";
  EXPECT_EQ(identify(peer, view, 0, now).user.gid, 65534u);
}

TEST_F(IdentityTest, OfTheNodesOwnRecordNothingIsTheNodesWord) {
  put_node("n1", 1, true);
  EXPECT_TRUE(from("n1", kAdmin).caller.admin);
  put_node("n1", 1, false);
  EXPECT_FALSE(from("n1", kAdmin).caller.admin);  // the next request already
}

TEST(TryGuard, AnAddressThatFailsTooOftenWaits) {
  TryGuard guard;
  Instant now{1'000'000};
  for (std::uint32_t i = 0; i < TryGuard::kTries; ++i) {
    EXPECT_TRUE(guard.may_try("10.0.0.1", now));
    guard.count("10.0.0.1", now);
  }
  EXPECT_FALSE(guard.may_try("10.0.0.1", now));
  EXPECT_TRUE(guard.may_try("10.0.0.2", now));
  now = now + TryGuard::kSpan;
  EXPECT_TRUE(guard.may_try("10.0.0.1", now));
}

TEST(TryGuard, RemembersABoundedNumberOfAddresses) {
  TryGuard guard;
  const Instant now{1'000'000};
  std::size_t tried = 0;
  for (std::size_t i = 0; i < 3 * TryGuard::kKnownMax; ++i)
    if (const std::string address = std::to_string(i); guard.may_try(address, now)) {
      guard.count(address, now);
      ++tried;
    }
  EXPECT_EQ(tried, TryGuard::kKnownMax);
  EXPECT_TRUE(guard.may_try("new", now + TryGuard::kSpan));
}

}  // namespace
}  // namespace lockstep
