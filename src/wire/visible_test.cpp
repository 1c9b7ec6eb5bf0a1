// Who sees what of every record, walked from the lists of fields: records filled at random differ, as others see them,
// exactly in the fields that the lists say are private.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <set>

#include "model/kinds.h"
#include "wire/random_value.h"

namespace lockstep::wire {
namespace {

using Paths = std::set<std::string>;

void differences(const json::value& whole, const json::value& shown, const std::string& path, Paths& out) {
  if (whole == shown)
    return;
  if (whole.is_object() && shown.is_object()) {
    Paths keys;
    for (const auto* object : {&whole.get_object(), &shown.get_object()})
      for (const auto& member : *object) keys.emplace(member.key().data(), member.key().size());
    static const json::value kMissing;
    for (const std::string& key : keys) {
      const json::value* a = whole.get_object().if_contains(key);
      const json::value* b = shown.get_object().if_contains(key);
      differences(a ? *a : kMissing, b ? *b : kMissing, path + (path.empty() ? "" : ".") + key, out);
    }
    return;
  }
  if (whole.is_array() && shown.is_array() && whole.get_array().size() == shown.get_array().size()) {
    for (std::size_t i = 0; i < whole.get_array().size(); ++i)
      differences(whole.get_array()[i], shown.get_array()[i], path + "[]", out);
    return;
  }
  out.insert(path);
}

Paths private_to(Kind kind, Visibility viewer) {
  Paths out;
  for (const PrivateField& field : private_fields(kind))
    if (viewer < field.seen_by)
      out.insert(field.path);
  return out;
}

template <class T>
void walk() {
  constexpr Kind kKind = kKindOf<T>;
  for (const Visibility viewer : {Visibility::kEveryone, Visibility::kOwner, Visibility::kAdministrator}) {
    const Paths expected = private_to(kKind, viewer);
    Paths seen;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      Rng rng(seed);
      T value = random_value<T>(rng);
      if constexpr (std::is_same_v<T, Job>)
        value.end_reason = "StageInFailed n1: /home/ann/data";  // of which others see a word
      const Record record = std::make_shared<const T>(std::move(value));
      const std::string whole = encode_whole(record), shown = encode_record(as_seen_by(record, viewer));
      differences(json::parse(whole), json::parse(shown), "", seen);
      if (expected.empty()) {
        EXPECT_EQ(whole, shown);
      }
    }
    EXPECT_EQ(seen, expected) << row_of(kKind).word << " as seen by " << static_cast<int>(viewer);
  }
}

TEST(Visible, OthersMissWhatTheListsSayAndNothingElse) {
#define KIND(type, name, word, table, count, seen) walk<type>();
#include "model/kinds.def"
}

// What must never become public by an oversight: changing this list is a decision.
TEST(Visible, WhatIsTheOwnersStaysTheOwners) {
  const Paths job = private_to(Kind::kJob, Visibility::kEveryone);
  for (const char* path :
       {"spec.script", "spec.environment", "spec.groups[].sandbox", "spec.groups[].ports", "spec.groups[].neighbours",
        "spec.groups[].node_rules", "spec.groups[].argv", "spec.groups[].env", "spec.groups[].container",
        "spec.checkpoint_file", "spec.checkpoint_line", "spec.stage_in", "spec.stage_out", "spec.labels",
        "spec.options", "first_step.argv", "first_step.container", "end_reason"})
    EXPECT_TRUE(job.contains(path)) << path;
  EXPECT_EQ(private_to(Kind::kTask, Visibility::kEveryone).count("containers"), 1u);
  EXPECT_EQ(private_to(Kind::kUser, Visibility::kEveryone).count("groups"), 1u);
  EXPECT_EQ(private_to(Kind::kHealthCheck, Visibility::kOwner), (Paths{"output", "script"}));
  EXPECT_EQ(private_to(Kind::kToken, Visibility::kAdministrator), (Paths{"secret_sha256"}));
}

}  // namespace
}  // namespace lockstep::wire
