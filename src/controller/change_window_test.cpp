#include "controller/change_window.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "model/job.h"
#include "model/records.h"

namespace lockstep {
namespace {

constexpr Viewer kRootSees{UserId{}, true}, kAnnSees{UserId{1}, false}, kBobSees{UserId{2}, false},
    kCySees{UserId{3}, false};
const KindSet kAll = KindSet().set();

KindSet only(Kind kind) { return KindSet().set(static_cast<std::size_t>(kind)); }

Change job_of(Seq seq, UserId user) {
  auto spec = std::make_shared<JobSpec>();
  spec->user = user;
  spec->std_out = "s3cret";
  auto job = std::make_shared<Job>();
  job->id = JobId{seq};
  job->meta.seq = seq;
  job->spec = std::move(spec);
  return {seq, Ref<Job>(std::move(job)), false};
}

Change object_of(Seq seq) {
  auto object = std::make_shared<Object>();
  object->type = "v1/Secret";
  object->meta.name = format("o{}", seq);
  object->meta.seq = seq;
  return {seq, Ref<Object>(std::move(object)), false};
}

std::size_t lines(const std::optional<ChangeWindow::Page>& page) {
  return page ? static_cast<std::size_t>(std::count(page->lines.begin(), page->lines.end(), '\n')) : 99;
}

TEST(ChangeWindow, WhatManyWatchIsEncodedOnceForEachWayOfSeeingIt) {
  ChangeWindow window(0);
  for (Seq seq = 1; seq <= 5; ++seq) window.add(job_of(seq, UserId{1}));
  for (int i = 0; i < 100; ++i)
    for (const Viewer& viewer : {kRootSees, kAnnSees, kBobSees, kCySees})
      EXPECT_EQ(lines(window.read(viewer, kAll, 0, 1 << 20)), 5u);
  EXPECT_EQ(window.encoded(), 15u);  // for administrators, the owner, the others
  EXPECT_NE(window.read(kAnnSees, kAll, 4, 1 << 20)->lines.find("s3cret"), std::string::npos);
  EXPECT_EQ(window.read(kBobSees, kAll, 4, 1 << 20)->lines.find("s3cret"), std::string::npos);
}

TEST(ChangeWindow, KeepsNothingOfChangesThatAreGone) {
  ChangeWindow window(0, {.changes = 10});
  for (Seq seq = 1; seq <= 50'000; ++seq) {
    window.add(job_of(seq, UserId{1}));
    ASSERT_EQ(lines(window.read(kRootSees, kAll, seq - 1, 1 << 20)), 1u);
  }
  EXPECT_LE(window.texts(), 5'000u);
}

TEST(ChangeWindow, GoesOnWhereTheLastPageEnded) {
  ChangeWindow window(0);
  for (Seq seq = 1; seq <= 20; ++seq) window.add(seq % 3 == 0 ? object_of(seq) : job_of(seq, UserId{1}));
  Seq after = 0;
  std::size_t all = 0;
  for (int i = 0; i < 100; ++i) {
    const auto page = window.read(kRootSees, kAll, after, 1);
    ASSERT_TRUE(page);
    if (page->seen == after)
      break;
    EXPECT_EQ(page->seen, after + 1);
    all += lines(page);
    after = page->seen;
  }
  EXPECT_EQ(all, 20u);
  EXPECT_EQ(lines(window.read(kRootSees, only(Kind::kObject), 0, 1 << 20)), 6u);
}

TEST(ChangeWindow, WhatIsHiddenIsSeenToHavePassed) {
  ChangeWindow window(7);
  window.add(job_of(8, UserId{1}));
  window.add(object_of(9));
  const auto bobs = window.read(kBobSees, kAll, 7, 1 << 20);
  EXPECT_EQ(lines(bobs), 1u);
  EXPECT_EQ(bobs->seen, 9u);
  EXPECT_TRUE(bobs->hidden);
  EXPECT_FALSE(window.read(kRootSees, kAll, 7, 1 << 20)->hidden);
}

TEST(ChangeWindow, ABusyKindPushesNoneOfAnotherOut) {
  ChangeWindow window(0, {.changes = 4});
  window.add(object_of(1));
  for (Seq seq = 2; seq <= 100; ++seq) window.add(job_of(seq, UserId{1}));
  EXPECT_FALSE(window.read(kRootSees, kAll, 0, 1 << 20));
  EXPECT_FALSE(window.read(kRootSees, only(Kind::kJob), 95, 1 << 20));
  EXPECT_EQ(lines(window.read(kRootSees, only(Kind::kJob), 96, 1 << 20)), 4u);
  EXPECT_EQ(lines(window.read(kRootSees, only(Kind::kObject), 0, 1 << 20)), 1u);
  EXPECT_FALSE(ChangeWindow(5).read(kRootSees, kAll, 4, 1));  // before it began
}

TEST(ChangeWindow, TextIsKeptWithinItsBound) {
  ChangeWindow window(0, {.changes = 1000, .text_bytes = 4000});
  for (Seq seq = 1; seq <= 300; ++seq) {
    window.add(job_of(seq, UserId{1}));
    ASSERT_EQ(lines(window.read(kBobSees, kAll, seq - 1, 1 << 20)), 1u);
    EXPECT_LE(window.text_bytes(), 4000u);
  }
  EXPECT_EQ(lines(window.read(kBobSees, kAll, 0, 1 << 20)), 300u);
  EXPECT_LE(window.text_bytes(), 4000u);
}

}  // namespace
}  // namespace lockstep
