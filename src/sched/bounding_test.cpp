// What bounds jobs is known from change to change, and a change costs the record that it is of.
#include "sched/bounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/rng.h"
#include "base/text.h"
#include "sched/admission.h"

namespace lockstep {
namespace {

template <class T>
Change change_of(T record, bool removed = false) {
  return {1, Ref<T>(std::make_shared<T>(std::move(record))), removed};
}

Association association(std::uint32_t number) {
  Association out;
  out.account = "a";
  out.user = format("u{}", number);
  out.meta.name = association_name(out.account, out.user, "");
  return out;
}

TEST(Bounding, AChangeCostsItsOwnRecord) {
  Admission admission;
  constexpr std::uint32_t kMany = 2000;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    Association one = association(i);
    one.limits.max_jobs = i % 2 ? 3 : kNoLimit;
    admission.observe(change_of(one));
  }
  EXPECT_TRUE(admission.counts());
  EXPECT_EQ(admission.bounding().looks(), kMany);
  admission.observe(change_of(Licence{}));
  admission.observe(change_of(Policy{}));
  EXPECT_EQ(admission.bounding().looks(), kMany) << "neither is among them";
  admission.observe(change_of(association(1)));
  EXPECT_EQ(admission.bounding().looks(), kMany + 2) << "as it was and as it is";
}

TEST(Bounding, TheLastOneThatBoundsTakesItAway) {
  Admission admission;
  Association limited = association(1);
  limited.limits.grp_tres_mins.cpu = 5;
  admission.observe(change_of(association(2)));
  EXPECT_FALSE(admission.counts());
  admission.observe(change_of(limited));
  EXPECT_TRUE(admission.counts() && admission.bounded() && admission.counts_minutes());
  EXPECT_TRUE(admission.turned_counting());
  limited.limits.grp_tres_mins = {};
  limited.limits.max_jobs = 1;
  admission.observe(change_of(limited));
  EXPECT_TRUE(admission.counts() && !admission.counts_minutes());
  admission.observe(change_of(limited, true));
  EXPECT_FALSE(admission.counts() || admission.bounded());
  admission.observe(change_of(limited, true));  // once more, of what is not there
  admission.observe(change_of(limited));
  EXPECT_TRUE(admission.counts());
}

// As a look at every record would say.
TEST(Bounding, AgreesWithALookAtAll) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    Admission admission;
    Policy policy;
    policy.weight_fair_share = 0;
    policy.weight_qos = 1;
    admission.observe(change_of(policy));
    for (int step = 0; step < 60; ++step) {
      const std::string name = format("r{}", rng.below(3));
      const bool removed = rng.chance(0.4);
      const auto limit = [&](Limits& limits) {
        if (rng.chance(0.2))
          limits.grp_wall_mins = 7;
        if (rng.chance(0.2))
          limits.max_jobs = 7;
      };
      Qos qos;
      qos.meta.name = name;
      qos.priority = static_cast<std::uint32_t>(rng.below(2));
      qos.requires_reservation = rng.chance(0.2);
      Account account;
      account.meta.name = name;
      if (rng.chance(0.2))
        account.quota.nominal.cpu = 1;
      Association user = association(static_cast<std::uint32_t>(rng.below(3)));
      limit(qos.limits), limit(account.limits), limit(user.limits);
      const Directory& d = admission.directory();
      switch (rng.below(3)) {
        case 0: admission.observe(change_of(qos, removed && d.qos_named(name))); break;
        case 1: admission.observe(change_of(account, removed && d.account(name))); break;
        default: admission.observe(change_of(user, removed && d.associations.count(user.meta.name) > 0));
      }
      const auto any = [](const auto& records, auto is) {
        return std::any_of(records.begin(), records.end(), [&](const auto& named) { return is(*named.second); });
      };
      const auto limits = [](const auto& r) { return r.limits != Limits{}; };
      const auto minutes = [](const auto& r) { return r.limits.grp_wall_mins != kNoLimit; };
      const bool counts = any(d.qos, [&](const Qos& q) { return limits(q) || q.requires_reservation; }) ||
                          any(d.accounts, [&](const Account& a) { return limits(a) || a.quota != Quota{}; }) ||
                          any(d.associations, limits);
      ASSERT_EQ(admission.counts(), counts) << "seed " << seed;
      ASSERT_EQ(admission.counts_minutes(),
                any(d.qos, minutes) || any(d.accounts, minutes) || any(d.associations, minutes))
          << "seed " << seed;
      ASSERT_EQ(admission.weighted(0), any(d.qos, [](const Qos& q) { return q.priority > 0; })) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace lockstep
