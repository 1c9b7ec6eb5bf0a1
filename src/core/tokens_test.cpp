// Who may become which node: tokens, the certificates handed out for them, and what ends a certificate.
#include "core/tokens.h"

#include "base/mutant.h"
#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

class Tokens : public ::testing::Test {
 protected:
  JoinToken token(const std::string& node, const std::string& name = "t1") {
    JoinToken out;
    out.meta.name = name;
    out.secret_sha256 = "abc";
    out.node = node;
    out.expires = w.now + hours(1);
    return out;
  }
  RedeemToken redeem(const std::string& node, const std::string& certificate, const std::string& name = "t1") {
    return {name, "abc", node, w.now, certificate};
  }
  // A token for that name is made and used.
  Result<Outcome> join(const std::string& node, const std::string& certificate, bool replace = false) {
    JoinToken made = token(node, "t" + std::to_string(++made_));
    made.replace = replace;
    w.must(PutToken{made});
    return w.run(redeem(node, certificate, made.meta.name));
  }
  NodeHello hello(const std::string& name, const std::string& certificate, const std::string& boot = "b1") {
    NodeHello out;
    out.facts.meta.name = name;
    out.facts.boot_id = boot;
    out.facts.cores = World::kCores;
    out.facts.memory_mb = 64'000;
    out.certificate = certificate;
    return out;
  }
  const Node& node(const std::string& name) { return *w.state.tables().node(name); }

  World w;
  int made_ = 0;
};

TEST_F(Tokens, WorkOnce) {
  JoinToken broker = token("n1");
  broker.role = JoinToken::Role::kBroker;
  broker.realm = "local";
  w.must(PutToken{broker});
  EXPECT_EQ(w.refused(RedeemToken{"t1", "wrong", "n1", w.now}), Errc::kDenied);
  EXPECT_EQ(w.refused(RedeemToken{"t1", "abc", "n2", w.now}), Errc::kDenied);
  EXPECT_EQ(w.refused(RedeemToken{"t2", "abc", "n1", w.now}), Errc::kDenied);
  EXPECT_EQ(w.refused(redeem("n1", "c1"), kAliceCalls), Errc::kDenied);
  const Answer answer = w.must(redeem("n1", "c1"));
  EXPECT_EQ(answer.role, JoinToken::Role::kBroker);
  EXPECT_EQ(answer.realm, "local");
  // The other of two that came at the same moment.
  EXPECT_EQ(w.refused(redeem("n1", "c2")), Errc::kDenied);
  EXPECT_EQ(w.refused(hello("n1", "c2")), Errc::kDenied);
  w.must(hello("n1", "c1"));
}

TEST_F(Tokens, WorkAsOftenAsTheySayUntilTheyExpire) {
  JoinToken three = token("n[1-4]");
  three.uses_left = 3;
  w.must(PutToken{three});
  for (const char* name : {"n1", "n2", "n3"}) w.must(redeem(name, name));
  EXPECT_EQ(w.refused(redeem("n4", "c4")), Errc::kDenied);
  w.must(hello("n2", "n2"));
  w.must(PutToken{token("n5", "t2")});
  w.wait(hours(2));
  EXPECT_EQ(w.refused(redeem("n5", "c5", "t2")), Errc::kDenied);
}

TEST_F(Tokens, AreBounded) {
  const auto refused = [&](auto change) {
    JoinToken made = token("n1");
    change(made);
    return w.refused(PutToken{made});
  };
  EXPECT_EQ(refused([&](JoinToken& t) { t.expires = {}; }), Errc::kInvalid);
  EXPECT_EQ(refused([&](JoinToken& t) { t.expires = w.now + hours(24 * 31); }), Errc::kInvalid);
  EXPECT_EQ(refused([](JoinToken& t) { t.uses_left = 0; }), Errc::kInvalid);
  EXPECT_EQ(refused([](JoinToken& t) { t.uses_left = kTokenUsesMax + 1; }), Errc::kInvalid);
  EXPECT_EQ(refused([](JoinToken& t) { t.secret_sha256.clear(); }), Errc::kInvalid);
  EXPECT_EQ(refused([](JoinToken& t) { t.node = "n[1-100000]"; }), Errc::kInvalid);
  EXPECT_EQ(refused([](JoinToken& t) { t.node = "n["; }), Errc::kInvalid);
  EXPECT_EQ(refused([](JoinToken& t) { t.issued = {{"n1", "stolen", {}}}; }), Errc::kInvalid);
  EXPECT_EQ(refused([](JoinToken& t) { t.role = JoinToken::Role::kBroker; }), Errc::kInvalid);
  EXPECT_EQ(refused([](JoinToken& t) {
              t.role = JoinToken::Role::kBroker;
              t.realm = "../x";
            }),
            Errc::kInvalid);
}

TEST_F(Tokens, GiveNamesThatMeanNothingElse) {
  JoinToken any = token("");
  any.uses_left = 100;
  w.must(PutToken{any});
  for (const char* bad : {"", ".", "..", "../etc", "a/b", "a..b", ".a", "a.", "-rf", "a b", "a\nb", "node:x"})
    EXPECT_EQ(w.refused(redeem(bad, "c1")), Errc::kInvalid) << bad;
  EXPECT_EQ(w.refused(redeem(std::string(60, 'n'), "c1")), Errc::kInvalid);
  w.must(redeem(std::string(59, 'n'), "c1"));
  for (const char* bad : {"..", "a/b"}) {
    EXPECT_EQ(w.refused(PutToken{token(bad, "t2")}), Errc::kInvalid) << bad;
    EXPECT_EQ(w.refused(hello(bad, "")), Errc::kInvalid) << bad;
  }
}

TEST_F(Tokens, WithoutANameGiveNoneThatIsTaken) {
  ASSERT_TRUE(join("n1", "c1").ok());
  w.must(hello("n1", "c1"));
  w.must(PutToken{token("", "any")});
  EXPECT_EQ(w.refused(redeem("n1", "thief", "any")), Errc::kConflict);
  w.must(NodeLost{node("n1").id});
  EXPECT_EQ(w.refused(redeem("n1", "thief", "any")), Errc::kConflict);
  w.must(redeem("n2", "c2", "any"));
}

TEST_F(Tokens, TakeANameFromANodeThatIsDownAndHoldsNothing) {
  ASSERT_TRUE(join("n1", "c1").ok());
  w.must(hello("n1", "c1"));
  EXPECT_EQ(join("n1", "c2").error().code, Errc::kConflict);
  w.must(NodeLost{node("n1").id});
  ASSERT_TRUE(join("n1", "c2").ok());
  EXPECT_EQ(w.refused(hello("n1", "c1")), Errc::kDenied);
  w.must(hello("n1", "c2", "b2"));
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
}

// What happens when a machine takes over from one that still runs a job.
TEST_F(Tokens, ReplaceOnlyWhenTheWorkIsFenced) {
  ASSERT_TRUE(join("n1", "c1").ok());
  w.must(hello("n1", "c1"));
  JobSpec spec = World::batch();
  spec.requeue = true;
  const JobId job = w.submit(spec);
  w.start_what_fits();
  w.actions.clear();
  (void)w.run(AgentReport{node("n1").id, "b1", job, 1, AttemptStarted{}});
  ASSERT_EQ(w.state_of(job), JobState::kRunning);
  const bool fenced_by_time = w.job(job).allocation->fence_after < kForever;
  ASSERT_TRUE(fenced_by_time);

  EXPECT_EQ(join("n1", "c2").error().code, Errc::kConflict);
  ASSERT_TRUE(join("n1", "c2", true).ok());
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
  EXPECT_EQ(w.refused(hello("n1", "c1")), Errc::kDenied);          // the old machine
  EXPECT_EQ(w.refused(hello("n1", "c2", "b2")), Errc::kConflict);  // the new one, too early
  EXPECT_EQ(w.state_of(job), JobState::kRunning);                  // nobody has proven that it is not
  (void)w.run(AgentReport{node("n1").id, "b1", job, 1, MemberStopped{true}});
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  w.must(hello("n1", "c2", "b2"));
  EXPECT_FALSE(node("n1").replaced);
}

TEST_F(Tokens, OneOfTwoIssuedForANameCounts) {
  ASSERT_TRUE(join("n1", "c1").ok());
  ASSERT_TRUE(join("n1", "c2").ok());
  EXPECT_EQ(w.refused(hello("n1", "c1")), Errc::kDenied);
  w.must(hello("n1", "c2"));
  for (const auto& [name, token] : w.state.tables().tokens) EXPECT_TRUE(token->issued.empty());
}

TEST_F(Tokens, AreForgottenWhenNothingComesOfThem) {
  ASSERT_TRUE(join("n1", "c1").ok());
  w.wait(hours(2));
  w.must(PutToken{token("n2", "x")});
  EXPECT_TRUE(w.state.tables().tokens.contains("t1"));  // its certificate may still come
  w.wait(hours(24 * 31));
  w.must(PutToken{token("n3", "y")});
  EXPECT_FALSE(w.state.tables().tokens.contains("t1"));
  EXPECT_EQ(w.refused(hello("n1", "c1")), Errc::kDenied);
}

// A removed node's certificate, and what would notice if nobody looked at it.
bool removed_node_comes_back(World& w, const NodeHello& hello, const JoinToken& token) {
  w.must(PutToken{token});
  w.must(RedeemToken{token.meta.name, "abc", "n1", w.now, hello.certificate});
  w.must(hello);
  w.must(NodeLost{w.state.tables().node("n1")->id});
  w.must(RemoveNode{"n1"});
  return w.run(hello).ok();
}
TEST_F(Tokens, ARemovedNodesCertificateCountsNoMore) {
  EXPECT_FALSE(removed_node_comes_back(w, hello("n1", "c1"), token("n1")));
}
TEST_F(Tokens, AMutantThatLetsItBackIsNoticed) {
  planted = Mutant::kRevokedCertificate;
  const bool back = removed_node_comes_back(w, hello("n1", "c1"), token("n1"));
  planted = Mutant::kNone;
  EXPECT_TRUE(back);
}

TEST_F(Tokens, ARevokedNodeIsLostAndStaysAway) {
  ASSERT_TRUE(join("n1", "c1").ok());
  w.must(hello("n1", "c1"));
  EXPECT_EQ(w.refused(UpdateNode{.name = "n1", .revoke = true}, kAliceCalls), Errc::kDenied);
  w.must(UpdateNode{.name = "n1", .revoke = true});
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
  EXPECT_EQ(w.refused(hello("n1", "c1")), Errc::kDenied);
  EXPECT_EQ(w.refused(hello("n1", "c1", "b2")), Errc::kDenied);
  EXPECT_EQ(w.refused(hello("n1", "")), Errc::kDenied);
  ASSERT_TRUE(join("n1", "c2").ok());
  w.must(hello("n1", "c2", "b2"));
}

TEST_F(Tokens, WhyANodeWasRevokedIsKnownUntilItJoinsAnew) {
  ASSERT_TRUE(join("n1", "c1").ok());
  w.must(hello("n1", "c1"));
  w.must(UpdateNode{.name = "n1", .drain = true, .reason = "stolen"});
  w.must(UpdateNode{.name = "n1", .revoke = true});
  w.must(UpdateNode{.name = "n1", .drain = false});
  EXPECT_EQ(node("n1").reason, "Certificate revoked (stolen)");
  ASSERT_TRUE(join("n1", "c2").ok());
  w.must(hello("n1", "c2", "b2"));
  EXPECT_EQ(node("n1").reason, "");
  EXPECT_FALSE(node("n1").reason_by);
}

TEST_F(Tokens, ASuccessorCountsBesideItsPredecessorUntilItSaysHello) {
  ASSERT_TRUE(join("n1", "c1").ok());
  w.must(hello("n1", "c1"));
  EXPECT_EQ(w.refused(RenewCertificate{"n1", "c1", "c2"}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(RenewCertificate{"n1", "stolen", "c2"}), Errc::kDenied);
  EXPECT_EQ(w.refused(RenewCertificate{"n9", "c1", "c2"}), Errc::kNotFound);
  w.must(RenewCertificate{"n1", "c1", "c2"});
  w.must(hello("n1", "c1"));  // the agent was stopped before it wrote the new one down
  EXPECT_EQ(node("n1").certificate, "c1");
  w.must(RenewCertificate{"n1", "c1", "c3"});  // and asks again
  EXPECT_EQ(w.refused(hello("n1", "c2")), Errc::kDenied);
  w.must(hello("n1", "c3"));
  EXPECT_EQ(node("n1").certificate, "c3");
  EXPECT_EQ(node("n1").next_certificate, "");
  EXPECT_EQ(w.refused(hello("n1", "c1")), Errc::kDenied);
  EXPECT_EQ(w.refused(RenewCertificate{"n1", "c1", "c4"}), Errc::kDenied);
  w.must(hello("n1", "c3"));
}

TEST_F(Tokens, ASuccessorEndsWithARevocationAndWithANewToken) {
  ASSERT_TRUE(join("n1", "c1").ok());
  w.must(hello("n1", "c1"));
  w.must(RenewCertificate{"n1", "c1", "c2"});
  w.must(UpdateNode{.name = "n1", .revoke = true});
  EXPECT_EQ(w.refused(hello("n1", "c2")), Errc::kDenied);
  ASSERT_TRUE(join("n1", "c3").ok());
  w.must(hello("n1", "c3", "b2"));
  w.must(RenewCertificate{"n1", "c3", "c4"});
  ASSERT_TRUE(join("n1", "c5", true).ok());
  EXPECT_EQ(w.refused(hello("n1", "c4", "b2")), Errc::kDenied);
  w.must(hello("n1", "c5", "b3"));
}

TEST_F(Tokens, ARecordFromBeforeCertificatesKeepsTheFirst) {
  w.must(hello("n1", ""));
  w.must(hello("n1", "c1"));
  EXPECT_EQ(w.refused(hello("n1", "c2")), Errc::kDenied);
}

TEST_F(Tokens, ANodeGivesItselfNoRights) {
  ASSERT_TRUE(join("n1", "c1").ok());
  NodeHello first = hello("n1", "c1");
  first.facts.trust_administrators = true;
  first.facts.certificate = first.facts.next_certificate = "mine";
  first.facts.drain = true;
  first.facts.reason = "because";
  auto extra = std::make_shared<MetaExtra>();
  extra->labels = {{"a", "b"}};
  first.facts.meta.extra = extra;
  for (int i = 0; i < 2; ++i) {
    w.must(first);
    EXPECT_FALSE(node("n1").trust_administrators);
    EXPECT_EQ(node("n1").certificate, "c1");
    EXPECT_EQ(node("n1").next_certificate, "");
    // It may say what is wrong with it, as its own word, and that it takes no work while that lasts.
    EXPECT_EQ(reason_of(node("n1")).words, "Node says: because (drained while that lasts)");
    EXPECT_FALSE(node("n1").reason_by);
    EXPECT_FALSE(node("n1").meta.extra);
  }
  first.facts.reason.clear();
  w.must(first);
  EXPECT_FALSE(node("n1").drain);
}

TEST_F(Tokens, TrustComesWithTheTokenOrByAnUpdate) {
  JoinToken trusting = token("n1");
  trusting.trust_administrators = true;
  w.must(PutToken{trusting});
  w.must(redeem("n1", "c1"));
  w.must(hello("n1", "c1"));
  EXPECT_TRUE(node("n1").trust_administrators);
  w.must(hello("n1", "c1", "b2"));
  EXPECT_TRUE(node("n1").trust_administrators);
  w.must(UpdateNode{.name = "n1", .trust_administrators = false});
  EXPECT_FALSE(node("n1").trust_administrators);
  w.must(UpdateNode{.name = "n1", .trust_administrators = true});
  w.must(NodeLost{node("n1").id});
  ASSERT_TRUE(join("n1", "c2").ok());  // another machine, by a token that says nothing of trust
  EXPECT_FALSE(node("n1").trust_administrators);
}

}  // namespace
}  // namespace lockstep
