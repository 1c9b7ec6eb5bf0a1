#include "core/reservations.h"

#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

WallTime wall(const World& w, Duration from_now = {}) { return {w.now.us + from_now.us}; }

Reservation reservation(const World& w, Duration from_now, Duration duration) {
  Reservation r;
  r.meta.name = "class";
  r.start = wall(w, from_now);
  r.duration = duration;
  r.nodes = {"n1"};
  r.users = {"alice"};
  return r;
}

JobSpec job_in(const char* reservation, Duration limit, std::uint32_t nodes = 1) {
  JobSpec spec = World::batch(nodes);
  spec.reservation = reservation;
  spec.time_limit = limit;
  return spec;
}

TEST(Reservations, StartsThatWouldRunIntoItAreRefused) {
  World w(1);
  w.must(PutReservation{reservation(w, hours(1), hours(2))});
  const JobId longer = w.submit(job_in("", hours(2)));
  const JobId shorter = w.submit(job_in("", minutes(59)));
  w.settle();
  EXPECT_EQ(w.state_of(longer), JobState::kPending);
  EXPECT_EQ(w.state_of(shorter), JobState::kRunning);
  w.pass(hours(1));
  w.obey();
  w.pass(hours(2));  // it is over and gone
  EXPECT_TRUE(w.state.tables().reservations.empty());
  w.settle();
  EXPECT_EQ(w.state_of(longer), JobState::kRunning);
}

TEST(Reservations, ItsJobsStartWithinIt) {
  World w(2);
  w.must(PutReservation{reservation(w, hours(1), hours(2))});
  const JobId inside = w.submit(job_in("class", hours(2)));
  w.settle();
  EXPECT_EQ(w.state_of(inside), JobState::kPending);
  w.pass(hours(1));
  w.settle();
  ASSERT_EQ(w.state_of(inside), JobState::kRunning);
  EXPECT_EQ(w.first_node(inside), 1u);
  const JobId wide = w.submit(job_in("class", hours(1), 2));  // a node outside
  w.settle();
  EXPECT_EQ(w.state_of(wide), JobState::kPending);
  EXPECT_EQ(w.refused(RemoveReservation{"class"}), Errc::kConflict);
}

TEST(Reservations, OnlyWhoIsLetInMayNameIt) {
  World w(1);
  w.must(PutReservation{reservation(w, hours(1), hours(2))});
  JobSpec bobs = job_in("class", hours(1));
  bobs.user = World::kBob;
  EXPECT_EQ(w.refused(SubmitJob{.spec = std::make_shared<const JobSpec>(bobs)}), Errc::kDenied);
  EXPECT_EQ(w.refused(SubmitJob{.spec = std::make_shared<const JobSpec>(job_in("other", hours(1)))}), Errc::kInvalid);
  const JobId id = w.submit(job_in("", hours(1)));
  UpdateJob update;
  update.target = {id, std::nullopt};
  update.reservation = "other";
  EXPECT_EQ(w.refused(update), Errc::kInvalid);
  update.reservation = "class";
  w.must(update);
}

TEST(Reservations, NodesAreChosenForANumber) {
  World w(4);
  const JobId busy = w.submit(job_in("", hours(5)));
  w.settle();
  EXPECT_EQ(w.first_node(busy), 1u);
  Reservation r = reservation(w, hours(1), hours(1));
  r.nodes.clear();
  r.node_count = 2;
  w.must(PutReservation{r});
  EXPECT_EQ(w.state.tables().reservation("class")->nodes, (std::vector<std::string>{"n2", "n3"}));
  Reservation other = r;
  other.meta.name = "other";
  EXPECT_EQ(w.refused(PutReservation{other}), Errc::kConflict);  // one is left
  other.node_count = 1;
  w.must(PutReservation{other});
  EXPECT_EQ(w.state.tables().reservation("other")->nodes, (std::vector<std::string>{"n4"}));
  Reservation third = r;
  third.meta.name = "third";
  third.node_count = 0;
  third.tres.gpus = 9;
  EXPECT_EQ(w.refused(PutReservation{third}), Errc::kConflict);
  third.start = wall(w, hours(6));
  w.must(PutReservation{third});
  EXPECT_EQ(w.state.tables().reservation("third")->nodes.size(), 2u);
}

TEST(Reservations, BusyNodesUnlessJobsAreIgnored) {
  World w(1);
  w.submit(job_in("", hours(5)));
  w.settle();
  Reservation r = reservation(w, hours(1), hours(1));
  EXPECT_EQ(w.refused(PutReservation{r}), Errc::kConflict);
  r.ignore_jobs = true;
  w.must(PutReservation{r});
  Reservation other = r;
  other.meta.name = "other";
  EXPECT_EQ(w.refused(PutReservation{other}), Errc::kConflict);
  other.overlap = true;
  w.must(PutReservation{other});
}

TEST(Reservations, PartitionsAndCoresAreThoseThatThereAre) {
  World w(2);
  Reservation r = reservation(w, hours(1), hours(1));
  r.partition = "nosuch";
  EXPECT_EQ(w.refused(PutReservation{r}), Errc::kInvalid);
  r.partition.clear();
  r.spec_nodes = true;
  r.tres.cpu = World::kCores + 1;
  EXPECT_EQ(w.refused(PutReservation{r}), Errc::kConflict);
  r.tres.cpu = World::kCores;
  w.must(PutReservation{r});
}

TEST(Reservations, ContradictionsAreRefused) {
  World w(1);
  Reservation r = reservation(w, hours(1), hours(1));
  r.nodes = {"n9"};
  EXPECT_EQ(w.refused(PutReservation{r}), Errc::kInvalid);
  r = reservation(w, hours(-2), hours(1));
  EXPECT_EQ(w.refused(PutReservation{r}), Errc::kInvalid);
  r = reservation(w, hours(1), hours(1));
  r.users.clear();
  r.accounts = {"nobody"};
  EXPECT_EQ(w.refused(PutReservation{r}), Errc::kNotFound);
  r = reservation(w, hours(1), hours(1));
  r.licenses = {{"matlab", 1}};
  EXPECT_EQ(w.refused(PutReservation{r}), Errc::kInvalid);
  r = reservation(w, hours(1), hours(1));
  EXPECT_EQ(w.refused(PutReservation{r}, Caller{World::kAlice, false}), Errc::kDenied);
  EXPECT_EQ(w.refused(RemoveReservation{"class"}), Errc::kNotFound);
}

TEST(Reservations, RecurringOnesStay) {
  World w(1);
  Reservation r = reservation(w, hours(1), hours(1));
  r.recurrence = Recurrence::kDaily;
  w.must(PutReservation{r});
  w.pass(hours(49));
  ASSERT_TRUE(w.state.tables().reservation("class"));
  const JobId inside = w.submit(job_in("class", minutes(30)));
  w.settle();
  EXPECT_EQ(w.state_of(inside), JobState::kRunning);
  w.pass(hours(2));
  w.obey();
  EXPECT_EQ(w.state_of(inside), JobState::kTimeout);
}

TEST(Reservations, GivenUpWhenNobodyUsesIt) {
  World w(1);
  Reservation r = reservation(w, {}, hours(5));
  r.purge_comp = true;
  r.purge_after = minutes(10);
  w.must(PutReservation{r});
  const JobId id = w.submit(job_in("class", hours(1)));
  w.settle();
  w.pass(minutes(30));
  EXPECT_TRUE(w.state.tables().reservation("class"));
  w.end_script(id);
  w.pass(minutes(9));
  EXPECT_TRUE(w.state.tables().reservation("class"));
  w.pass(minutes(2));
  EXPECT_FALSE(w.state.tables().reservation("class"));
}

TEST(Reservations, ADownNodeIsReplaced) {
  World w(3);
  Reservation r = reservation(w, hours(1), hours(1));
  r.nodes.clear();
  r.node_count = 2;
  r.replace_down = true;
  w.must(PutReservation{r});
  w.lose(1);
  EXPECT_EQ(w.state.tables().reservation("class")->nodes, (std::vector<std::string>{"n2", "n3"}));
  UpdateNode drain;
  drain.name = "n2";
  drain.drain = true;
  w.must(drain);  // no other is left
  EXPECT_EQ(w.state.tables().reservation("class")->nodes, (std::vector<std::string>{"n2", "n3"}));
}

TEST(Reservations, LicencesAreKept) {
  World w(2);
  Licence licence;
  licence.meta.name = "matlab";
  licence.total = 4;
  w.must(PutLicence{licence});
  Reservation r = reservation(w, {}, hours(5));
  r.nodes.clear();
  r.any_nodes = true;
  r.licenses = {{"matlab", 3}};
  w.must(PutReservation{r});
  JobSpec outside = job_in("", hours(1));
  outside.licenses = "matlab:2";
  const JobId waits = w.submit(outside);
  JobSpec inside = job_in("class", hours(1));
  inside.licenses = "matlab:3";
  const JobId runs = w.submit(inside);
  outside.licenses = "matlab";
  const JobId one = w.submit(outside);
  w.settle();
  EXPECT_EQ(w.state_of(waits), JobState::kPending);
  EXPECT_EQ(w.state_of(runs), JobState::kRunning);
  EXPECT_EQ(w.state_of(one), JobState::kRunning);
}

TEST(Reservations, WhatRunsStaysWhenItShrinksAndEndsWithItsWindow) {
  World w(4);
  Reservation r = reservation(w, {}, hours(5));
  r.nodes = {"n1", "n2", "n3"};
  w.must(PutReservation{r});
  const JobId id = w.submit(job_in("class", hours(4)));
  const JobId flexible = w.submit(job_in("class", hours(4)));
  w.settle();
  ASSERT_EQ(w.first_node(id), 1u);
  // Fewer nodes: those in use are kept first, and its own jobs do not make them busy.
  r.nodes.clear();
  r.node_count = 1;
  w.must(PutReservation{r});
  EXPECT_EQ(w.state.tables().reservation("class")->nodes, (std::vector<std::string>{"n1"}));
  // Another node altogether: who runs on the old one stays.
  r.nodes = {"n4"};
  r.node_count = 0;
  w.must(PutReservation{r});
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  w.pass(minutes(10));
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  // A shorter window ends them, and then the reservation.
  r.duration = hours(1);
  w.must(PutReservation{r});
  w.pass(minutes(49));
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  w.pass(minutes(2));
  w.obey();
  EXPECT_EQ(w.state_of(id), JobState::kTimeout);
  EXPECT_EQ(w.job(id).end_reason, "TimeLimit");
  EXPECT_EQ(w.state_of(flexible), JobState::kTimeout);
  EXPECT_FALSE(w.state.tables().reservation("class"));
}

TEST(Reservations, AJobWithoutATimeLimitStartsAndEndsWithTheWindow) {
  World w(1);
  w.must(PutReservation{reservation(w, {}, hours(1))});
  const JobId open = w.submit(job_in("class", {}));
  w.settle();
  EXPECT_EQ(w.state_of(open), JobState::kRunning);
  w.pass(minutes(59));
  EXPECT_EQ(w.state_of(open), JobState::kRunning);
  w.pass(minutes(2));
  w.obey();
  EXPECT_EQ(w.state_of(open), JobState::kTimeout);
}

TEST(Reservations, FlexibleOnesDoNotEndTheirJobs) {
  World w(1);
  Reservation r = reservation(w, {}, hours(5));
  r.flex = true;
  w.must(PutReservation{r});
  const JobId id = w.submit(job_in("class", hours(4)));
  w.settle();
  r.duration = hours(1);
  w.must(PutReservation{r});
  w.pass(hours(2));
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
}

TEST(Reservations, ItsJobsWaitOnOrGoElsewhereWhenItIsOver) {
  World w(1);
  Reservation r = reservation(w, {}, hours(1));
  w.must(PutReservation{r});
  const auto late = [&] {  // it may not start before the window is over
    JobSpec spec = job_in("class", hours(2));
    spec.begin = WallTime{w.now.us + minutes(90).us};
    return spec;
  };
  const JobId held = w.submit(late());
  w.pass(hours(2));
  w.settle();
  EXPECT_EQ(w.state_of(held), JobState::kPending);
  w.must(ReleaseJob{{held, std::nullopt}});
  EXPECT_EQ(w.job(held).spec->reservation, "");
  w.settle();
  EXPECT_EQ(w.state_of(held), JobState::kRunning);
  w.end_script(held);

  r = reservation(w, {}, hours(1));
  r.no_hold_jobs_after = true;
  w.must(PutReservation{r});
  const JobId free = w.submit(late());
  JobSpec element = late();
  const JobId array = w.submit_array(element, "1-2");
  w.settle();
  EXPECT_EQ(w.state_of(free), JobState::kPending);
  w.pass(hours(2));
  w.settle();
  EXPECT_EQ(w.state_of(free), JobState::kRunning);
  EXPECT_EQ(w.job(array).spec->reservation, "");
}

TEST(Reservations, TheWallClockMovesThem) {
  World w(1);
  w.must(PutReservation{reservation(w, hours(1), hours(1))});
  w.must(SetWallOffset{hours(3)});
  w.must(Tick{});
  EXPECT_FALSE(w.state.tables().reservation("class"));
}

}  // namespace
}  // namespace lockstep
