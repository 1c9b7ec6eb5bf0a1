#include "frontends/slurm/server/shares.h"

#include <gtest/gtest.h>

#include "frontends/slurm/server/show.h"
#include "frontends/slurm/server/test_cluster.h"
#include "model/spec.h"

namespace lockstep::slurm {
namespace {

class SharesTest : public ::testing::Test {
 protected:
  SharesTest() {
    Account account;
    account.meta.name = "science";
    account.shares = 3;
    c.put(account);
    Association a;
    a.account = "science";
    a.user = "alice";
    a.meta.name = association_name("science", "alice", "");
    c.put(a);
    Usage usage;
    usage.account = "science";
    usage.user = UserId(1);
    usage.as_of = now;
    usage.spent.billing = 7'000'000;
    usage.meta.name = usage_name(usage);
    c.put(usage);
    JobSpec spec = TestCluster::spec("train");
    spec.account = "science";
    spec.nice = 5;
    c.put(TestCluster::pending(7, spec));
  }
  ReadContext context() {
    ReadContext out{c.tables, c.notes, now, Duration{}};
    out.admin = true;
    out.cluster_name = "home";
    return out;
  }
  std::string page(Page page, std::map<std::string, std::string, std::less<>> query) {
    const ReadContext now_here = context();
    const PageReply reply = whole(page(now_here, {"", std::move(query)}));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.body;
  }
  TestCluster c{2, 8, 4};
  Instant now{1'700'000'000'000'000};
};

TEST_F(SharesTest, Sshare) {
  EXPECT_EQ(
      page(sshare_page, {{"columns", "account,user,rawshares,normshares,rawusage,fairshare,levelfs"}, {"all", "1"}}),
      "root\t\t\t0.000000\t7000\t\t\n"
      " science\t\t3\t1.000000\t7000\t\t1.000000\n"
      "  science\talice\t1\t1.000000\t7000\t1.000000\t1.000000\n");
  EXPECT_EQ(page(sshare_page, {{"columns", "user"}, {"users", "bob"}, {"users_only", "1"}}), "");
  EXPECT_EQ(sshare_page(context(), {"", {{"columns", "colour"}}}).status, 400);
  EXPECT_NE(page(sshare_json_page, {{"all", "1"}}).find(R"("user":"alice","partition":"","rawshares":1)"),
            std::string::npos);
}

TEST_F(SharesTest, Sprio) {
  EXPECT_EQ(page(sprio_page, {{"columns", "jobid,priority,fairshare,nice,user"}}), "7\t99995\t100000\t5\talice\n");
  EXPECT_EQ(page(sprio_page, {{"columns", "jobid"}, {"jobs", "8"}}), "");
  EXPECT_EQ(page(sprio_page, {{"columns", "jobid"}, {"users", "1000"}}), "7\n");
  EXPECT_EQ(page(sprio_page, {{"columns", "jobid"}, {"users", "4711"}}), "");
  const ReadContext now_here = context();
  const PageReply refused = sprio_page(now_here, {"", {{"columns", "jobid"}, {"users", "nosuch"}}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, "Invalid user: nosuch");
  EXPECT_EQ(page(sprio_page, {{"columns", "fairshare,qos"}, {"weights", "1"}}), "100000\t1000000\n");
}

TEST_F(SharesTest, Reservations) {
  EXPECT_EQ(page(show_reservation_page, {}), "No reservations in the system\n");
  Reservation r;
  r.meta.name = "class";
  r.start = WallTime{now.us - hours(25).us};
  r.duration = hours(2);
  r.recurrence = Recurrence::kDaily;
  r.nodes = {"n1"};
  r.users = {"alice"};
  c.put(r);
  const std::string shown = page(show_reservation_page, {{"name", "class"}, {"oneline", "1"}});
  for (const char* part : {"ReservationName=class", "Duration=02:00:00", "Nodes=n1 NodeCnt=1 CoreCnt=8", "Flags=DAILY",
                           "Users=alice", "State=ACTIVE"})
    EXPECT_NE(shown.find(part), std::string::npos) << shown;
  EXPECT_EQ(show_reservation_page(context(), {"", {{"name", "other"}}}).status, 404);
  const std::string listed = page(list_reservations_page, {{"noheader", "1"}});
  EXPECT_TRUE(listed.starts_with("class        ACTIVE  ")) << listed;
  EXPECT_TRUE(listed.ends_with("    02:00:00  n1\n")) << listed;
  Licence licence;
  licence.meta.name = "matlab";
  licence.total = 4;
  c.put(licence);
  EXPECT_NE(page(show_licence_page, {{"oneline", "1"}}).find("LicenseName=matlab Total=4 Used=0 Free=4"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::slurm
