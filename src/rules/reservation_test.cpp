#include "rules/reservation.h"

#include <gtest/gtest.h>

#include "model/spec.h"

namespace lockstep {
namespace {

constexpr std::int64_t kH = std::int64_t{3600} * 1'000'000;
constexpr std::int64_t kD = 24 * kH;
// Monday, 2023-11-13 00:00 UTC.
constexpr WallTime kMonday{1'699'833'600'000'000};
constexpr WallTime at(int day, int hour) { return {kMonday.us + day * kD + hour * kH}; }

Reservation made(Recurrence recurrence, WallTime start, Duration duration) {
  Reservation r;
  r.meta.name = "r";
  r.start = start;
  r.duration = duration;
  r.recurrence = recurrence;
  r.nodes = {"n1", "n2"};
  r.users = {"ann"};
  return r;
}

std::vector<int> days_of(const Reservation& r, int count) {
  std::vector<int> out;
  for (const Window& w : windows_between(r, at(0, 0), at(60, 0), static_cast<std::size_t>(count)))
    out.push_back(static_cast<int>((w.start.us - kMonday.us) / kD));
  return out;
}

TEST(Reservation, OnceOnly) {
  const Reservation r = made(Recurrence::kNone, at(1, 10), hours(2));
  EXPECT_EQ(window_after(r, at(0, 0)), (Window{at(1, 10), at(1, 12)}));
  EXPECT_EQ(window_after(r, at(1, 11)), (Window{at(1, 10), at(1, 12)}));
  EXPECT_EQ(window_after(r, at(1, 12)), std::nullopt);
  EXPECT_FALSE(in_force(r, WallTime{at(1, 10).us - 1}));
  EXPECT_TRUE(in_force(r, at(1, 10)));
  EXPECT_FALSE(in_force(r, at(1, 12)));
}

TEST(Reservation, RecursOverDays) {
  EXPECT_EQ(days_of(made(Recurrence::kDaily, at(0, 2), hours(4)), 10),
            (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(days_of(made(Recurrence::kWeekday, at(0, 2), hours(4)), 8), (std::vector<int>{0, 1, 2, 3, 4, 7, 8, 9}));
  EXPECT_EQ(days_of(made(Recurrence::kWeekend, at(5, 2), hours(24)), 5), (std::vector<int>{5, 6, 12, 13, 19}));
  EXPECT_EQ(days_of(made(Recurrence::kWeekly, at(3, 2), hours(48)), 3), (std::vector<int>{3, 10, 17}));
  const Reservation hourly = made(Recurrence::kHourly, at(0, 0), minutes(10));
  EXPECT_EQ(window_after(hourly, WallTime{at(20, 7).us + kH / 6}),
            (Window{at(20, 8), WallTime{at(20, 8).us + kH / 6}}));
}

TEST(Reservation, NextOccurrenceFarAhead) {
  const Reservation r = made(Recurrence::kWeekday, at(0, 22), hours(4));         // Friday's runs into Saturday
  EXPECT_EQ(window_after(r, at(3652, 1)), (Window{at(3651, 22), at(3652, 2)}));  // day 3651 is a Friday
  EXPECT_EQ(days_of(r, 1), (std::vector<int>{0}));
  EXPECT_TRUE(in_force(r, at(5, 1)));
  EXPECT_FALSE(in_force(r, at(5, 23)));
}

TEST(Reservation, TheLongestGapIsWhatAJobMayRunAtMost) {
  EXPECT_EQ(longest_gap(made(Recurrence::kNone, at(0, 2), hours(4))), std::nullopt) << "after it there is no end";
  EXPECT_EQ(longest_gap(made(Recurrence::kHourly, at(0, 2), minutes(10))), minutes(50));
  EXPECT_EQ(longest_gap(made(Recurrence::kDaily, at(0, 2), hours(4))), hours(20));
  EXPECT_EQ(longest_gap(made(Recurrence::kWeekday, at(2, 2), hours(4))), hours(20 + 48)) << "over the weekend";
  EXPECT_EQ(longest_gap(made(Recurrence::kWeekend, at(5, 2), hours(4))), hours(20 + 24 * 5));
  EXPECT_EQ(longest_gap(made(Recurrence::kWeekly, at(3, 2), hours(4))), hours(24 * 7 - 4));
}

TEST(Reservation, WeekdaysGoByTheirOwnCalendar) {
  // 23:00 UTC on Sunday is Monday morning in a zone nine hours ahead.
  Reservation r = made(Recurrence::kWeekday, at(-1, 23), hours(1));
  EXPECT_FALSE(check_reservation(r).ok());
  r.zone_s = 9 * 3600;
  EXPECT_TRUE(check_reservation(r).ok());
  EXPECT_TRUE(in_force(r, at(3, 23)));   // Friday there
  EXPECT_FALSE(in_force(r, at(4, 23)));  // Saturday there
}

TEST(Reservation, Overlap) {
  const Reservation daily = made(Recurrence::kDaily, at(0, 8), hours(2));
  EXPECT_TRUE(overlap(daily, made(Recurrence::kNone, at(9, 9), hours(1))));
  EXPECT_FALSE(overlap(daily, made(Recurrence::kNone, at(9, 10), hours(22))));
  EXPECT_TRUE(overlap(made(Recurrence::kWeekly, at(2, 0), hours(3)), made(Recurrence::kDaily, at(0, 2), hours(1))));
}

TEST(Reservation, ContradictionsAreRefused) {
  EXPECT_TRUE(check_reservation(made(Recurrence::kDaily, at(0, 0), hours(24))).ok());
  EXPECT_FALSE(check_reservation(made(Recurrence::kDaily, at(0, 0), hours(25))).ok());
  EXPECT_FALSE(check_reservation(made(Recurrence::kNone, at(0, 0), Duration{})).ok());
  EXPECT_FALSE(check_reservation(made(Recurrence::kNone, at(0, 0), kForever)).ok());
  EXPECT_FALSE(check_reservation(made(Recurrence::kWeekend, at(0, 0), hours(1))).ok());
  Reservation r = made(Recurrence::kNone, at(0, 0), hours(1));
  r.users.clear();
  EXPECT_FALSE(check_reservation(r).ok());
  r = made(Recurrence::kNone, at(0, 0), hours(1));
  r.nodes.clear();
  EXPECT_FALSE(check_reservation(r).ok());
}

class ReservationRule : public ::testing::Test {
 protected:
  ReservationRule() {
    for (const auto& [id, name] : {std::pair{1u, "ann"}, {2u, "bo"}}) {
      User user;
      user.id = UserId(id);
      user.meta.name = name;
      user.gid = id * 100;
      directory.users[user.id] = std::make_shared<const User>(user);
    }
    ann.user = UserId(1);
    bo.user = UserId(2);
    keep(made(Recurrence::kNone, at(1, 0), hours(24)));
  }
  void keep(Reservation r) { directory.reservations[r.meta.name] = std::make_shared<const Reservation>(r); }
  std::string reason(const JobSpec& spec, std::vector<std::string> nodes, WallTime from, WallTime to) {
    const auto no = reservation_denial(directory, spec, nodes, from, to);
    return no ? no->reason : "";
  }
  Directory directory;
  JobSpec ann, bo;
};

TEST_F(ReservationRule, OthersKeepOffWhileItIsInForce) {
  EXPECT_EQ(reason(bo, {"n1"}, at(0, 0), at(1, 0)), "");  // ends in time
  EXPECT_EQ(reason(bo, {"n1"}, at(0, 0), WallTime{at(1, 0).us + 1}), "ReqNodeNotAvail");
  EXPECT_EQ(reason(bo, {"n3"}, at(1, 0), at(9, 0)), "");
  EXPECT_EQ(reason(bo, {"n3", "n2"}, at(1, 23), at(9, 0)), "ReqNodeNotAvail");
  EXPECT_EQ(reason(bo, {"n1"}, at(2, 0), at(9, 0)), "");
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 0), at(1, 1)), "ReqNodeNotAvail");  // she has to name it
  EXPECT_EQ(reservation_denial(directory, bo, {"n1"}, at(1, 5), at(1, 6))->until, at(2, 0));
}

TEST_F(ReservationRule, WhoIsLetInMayUseItWithinItsTime) {
  ann.reservation = bo.reservation = "r";
  EXPECT_EQ(reason(ann, {"n1", "n2"}, at(1, 0), at(2, 0)), "");
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 23), WallTime{INT64_MAX}), "") << "it ends with the window";
  EXPECT_EQ(reason(ann, {"n1"}, at(2, 0), at(2, 1)), "Reservation");
  EXPECT_EQ(reason(ann, {"n1"}, at(0, 23), at(1, 1)), "Reservation");
  EXPECT_EQ(reason(ann, {"n1", "n3"}, at(1, 0), at(1, 1)), "Reservation");
  EXPECT_EQ(reason(bo, {"n1"}, at(1, 0), at(1, 1)), "Reservation");
  ann.reservation = "gone";
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 0), at(1, 1)), "ReservationDeleted");
  ann.reservation = "gone,r";
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 0), at(1, 1)), "");
}

TEST_F(ReservationRule, FlexReachesBeyond) {
  Reservation r = made(Recurrence::kNone, at(1, 0), hours(24));
  r.flex = true;
  keep(r);
  ann.reservation = "r";
  EXPECT_EQ(reason(ann, {"n1", "n3"}, at(0, 23), at(5, 0)), "");
}

TEST_F(ReservationRule, MagneticDrawsWhoIsLetIn) {
  Reservation r = made(Recurrence::kNone, at(1, 0), hours(24));
  r.magnetic = true;
  keep(r);
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 0), at(1, 5)), "");
  EXPECT_EQ(reason(ann, {"n1", "n3"}, at(1, 0), at(1, 5)), "");
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 0), at(3, 0)), "ReqNodeNotAvail");  // longer than the window
  EXPECT_EQ(reason(bo, {"n1"}, at(1, 0), at(1, 5)), "ReqNodeNotAvail");
}

TEST_F(ReservationRule, OfSeveralThatAJobNamesAnyWillDo) {
  Reservation r = made(Recurrence::kNone, at(1, 0), hours(24));
  r.nodes = {"n1"};
  keep(r);
  Reservation other = r;
  other.meta.name = "other";
  other.nodes = {"n2"};
  keep(other);
  ann.reservation = "r,other";
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 0), at(1, 5)), "");
  EXPECT_EQ(reason(ann, {"n2"}, at(1, 0), at(1, 5)), "");
  EXPECT_EQ(reason(ann, {"n1", "n2"}, at(1, 0), at(1, 5)), "");
  EXPECT_EQ(reason(ann, {"n3"}, at(1, 0), at(1, 5)), "Reservation");
  other.users = {"bo"};
  keep(other);
  EXPECT_EQ(reason(ann, {"n2"}, at(1, 0), at(1, 5)), "Reservation");  // that one does not let her in
}

TEST_F(ReservationRule, WhoIsLetIn) {
  Reservation r = made(Recurrence::kNone, at(1, 0), hours(1));
  EXPECT_TRUE(admits(directory, r, ann));
  EXPECT_FALSE(admits(directory, r, bo));
  r.users = {"-bo"};
  EXPECT_TRUE(admits(directory, r, ann));
  EXPECT_FALSE(admits(directory, r, bo));
  r.users.clear();
  r.groups = {"200"};
  EXPECT_FALSE(admits(directory, r, ann));
  EXPECT_TRUE(admits(directory, r, bo));
  Account science, physics;
  science.meta.name = "science";
  physics.meta.name = "physics";
  physics.parent = "science";
  directory.accounts["science"] = std::make_shared<const Account>(science);
  directory.accounts["physics"] = std::make_shared<const Account>(physics);
  r.groups.clear();
  r.accounts = {"science"};
  EXPECT_FALSE(admits(directory, r, ann));
  ann.account = "physics";
  EXPECT_TRUE(admits(directory, r, ann));  // below it
  r.users = {"-ann"};
  EXPECT_FALSE(admits(directory, r, ann));
}

TEST_F(ReservationRule, MaintenanceStopsEvenOverlappingOnes) {
  Reservation r = made(Recurrence::kNone, at(1, 0), hours(24));
  r.overlap = true;
  keep(r);
  Reservation other = made(Recurrence::kDaily, at(0, 12), hours(1));
  other.meta.name = "other";
  other.users = {"bo"};
  keep(other);
  ann.reservation = "r";
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 11), at(1, 14)), "");
  other.maint = true;
  keep(other);
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 11), at(1, 14)), "ReqNodeNotAvail");
  EXPECT_EQ(reason(ann, {"n1"}, at(1, 13), at(1, 20)), "");
}

TEST_F(ReservationRule, Licences) {
  Reservation r = made(Recurrence::kNone, at(1, 0), hours(24));
  r.licenses = {{"matlab", 3}};
  keep(r);
  const Ledger ledger;
  EXPECT_TRUE(reserved_licences(directory, ledger, nullptr, at(0, 0), at(1, 0)).empty());
  EXPECT_EQ(reserved_licences(directory, ledger, nullptr, at(0, 0), at(2, 0)),
            (std::vector<NamedCount>{{"matlab", 3}}));
  EXPECT_TRUE(reserved_licences(directory, ledger, directory.reservation("r"), at(1, 0), at(2, 0)).empty());
}

}  // namespace
}  // namespace lockstep
