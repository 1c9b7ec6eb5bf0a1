#include "core/object_ledger.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/testing.h"

namespace lockstep {
namespace {

Object piece(const std::string& ns, const std::string& name, std::size_t bytes = 10,
             const std::string& type = "configmaps") {
  Object object;
  object.type = type;
  object.meta.ns = ns;
  object.meta.name = name;
  object.body = std::string(bytes, 'x');
  return object;
}

// 4 objects or 8 KiB in a namespace, the 3 newest events, 10 objects in all.
CoreSettings small_shares() {
  CoreSettings settings;
  settings.object_shares = {.each = {.objects_max = 4, .bytes_max = 8192},
                            .apart = {{"events", {.objects_max = 3, .bytes_max = 8192, .newest_stay = true}}},
                            .all = {.objects_max = 10, .bytes_max = 1 << 20}};
  return settings;
}

struct Shares : World {
  Shares() : World(0, small_shares()) {}
  std::string why(const Object& object) {
    const auto done = run(PutObject{object, 0});
    return done.ok() ? "" : format("{}: {}", done.error().field, done.error().message);
  }
  bool has(const Object& object) const {
    return state.tables().objects.contains({object.type, object.meta.ns, object.meta.name});
  }
};

TEST(ObjectLedger, ANamespaceHasAShareOfObjects) {
  Shares w;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(w.why(piece("a", format("m{}", i))), "");
  EXPECT_EQ(w.why(piece("a", "m4")),
            "object_share: namespace a has objects that number 4 and may be 4: delete what is not needed, or ask an "
            "administrator of the cluster for a larger share");
  EXPECT_EQ(w.why(piece("a", "m3", 20)), "") << "what is there may change";
  EXPECT_EQ(w.why(piece("b", "m4")), "") << "nobody else is concerned";
  w.must(RemoveObject{"configmaps", "a", "m0", 0});
  EXPECT_EQ(w.why(piece("a", "m4")), "");
}

TEST(ObjectLedger, AndOfBytes) {
  Shares w;
  EXPECT_EQ(w.why(piece("a", "m0", 7000)), "");
  EXPECT_NE(w.why(piece("a", "m1", 2000)).find("take 7 KiB and may take 8 KiB"), std::string::npos);
  // What is there may grow by an eighth beyond, so that controllers can tell what is the matter.
  EXPECT_EQ(w.why(piece("a", "m0", 8600)), "");
  EXPECT_NE(w.why(piece("a", "m0", 9900)), "");
  EXPECT_EQ(w.why(piece("a", "m0", 9000)), "") << "a few words always fit";
  Object labelled = piece("a", "m0", 0);
  auto extra = std::make_shared<MetaExtra>();
  extra->annotations = {{"long", std::string(20'000, 'x')}};
  labelled.meta.extra = extra;
  EXPECT_NE(w.why(labelled), "") << "words of the envelope count, too";
}

TEST(ObjectLedger, WhatIsBeingDeletedMayAlwaysChange) {
  Shares w;
  Object held = piece("a", "m0", 7000);
  auto extra = std::make_shared<MetaExtra>();
  extra->finalizers = {"keep"};
  held.meta.extra = extra;
  EXPECT_EQ(w.why(held), "");
  w.must(RemoveObject{"configmaps", "a", "m0", 0});
  held.body = std::string(20'000, 'x');
  EXPECT_EQ(w.why(held), "");
  held.meta.extra = nullptr;
  EXPECT_EQ(w.why(held), "") << "its last finalizer";
  EXPECT_FALSE(w.has(held));
}

TEST(ObjectLedger, OfEventsTheNewestStay) {
  Shares w;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(w.why(piece("a", format("m{}", i))), "");
  for (int i = 9; i >= 0; --i)
    EXPECT_EQ(w.why(piece("a", format("e{}", i), 10, "events")), "") << "in a full namespace";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(w.has(piece("a", format("e{}", i), 10, "events")), i < 3) << i;
  EXPECT_EQ(w.why(piece("b", "e", 10, "events")), "");
  EXPECT_TRUE(w.has(piece("a", "e2", 10, "events"))) << "others keep theirs";
  EXPECT_EQ(w.why(piece("a", "long", 8000, "events")), "");
  EXPECT_FALSE(w.has(piece("a", "e1", 10, "events"))) << "a long one takes the place of several";
}

TEST(ObjectLedger, NobodyGetsMoreThanIsFree) {
  Shares w;
  const auto takes = [&](const char* ns) {
    int taken = 0;
    while (taken < 10 && w.why(piece(ns, format("m{}", taken))).empty()) ++taken;
    return taken;
  };
  EXPECT_EQ(takes("a"), 4);
  EXPECT_EQ(takes("b"), 3) << "of the six that were left it gets half";
  EXPECT_NE(w.why(piece("b", "m")).find("(all together have used up most of the cluster's room)"), std::string::npos);
  EXPECT_EQ(takes("c"), 2) << "whoever comes later finds room";
  EXPECT_EQ(takes("d"), 1);
}

TEST(ObjectLedger, OutsideOfNamespacesEachTypeHasAShare) {
  Shares w;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(w.why(piece("", format("n{}", i), 10, "namespaces")), "");
  EXPECT_EQ(w.why(piece("", "n4", 10, "namespaces")).find("object_share: there are namespaces that number 4"), 0u);
  EXPECT_EQ(w.why(piece("", "n4", 10, "nodes")), "");
}

}  // namespace
}  // namespace lockstep
