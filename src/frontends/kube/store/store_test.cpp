#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "frontends/kube/store/object_history.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"
#include "model/records.h"

namespace lockstep::kube {
namespace {

constexpr std::string_view kType = "configmaps";

// Tables and a history that see the same changes.
struct Told {
  Tables tables;
  ObjectHistory history;
  Seq seq = 10;

  Told() {
    tables.seq = seq;
    history.begin(tables);
  }
  explicit Told(ObjectHistory::Most most) : history(most) {
    tables.seq = seq;
    history.begin(tables);
  }

  Ref<Object> put(const std::string& name, const std::string& ns = "a", const std::string& data = "") {
    Object object;
    object.type = kType;
    object.meta.ns = ns;
    object.meta.name = name;
    object.meta.seq = ++seq;
    object.body = R"({"metadata":{},"data":")" + data + "\"}";
    const auto made = std::make_shared<const Object>(std::move(object));
    tell({seq, made, false});
    return made;
  }
  void remove(const std::string& name, const std::string& ns = "a") {
    tell({++seq, tables.objects.at({std::string(kType), ns, name}), true});
  }
  void tell(const Change& change) {
    history.change(tables, change);
    tables.apply(change);
  }
  std::string page(Seq at, std::size_t most, const ObjectKey* after = nullptr, std::string_view ns = "") const {
    const auto found = history.page(
        tables, kType, ns, at, after, most, [](const Object&) { return true; }, true);
    if (!found)
      return "too old";
    std::string out;
    for (const auto& object : found->objects)
      out += object->meta.ns.get() + "/" + object->meta.name + "=" + object->body.substr(23) + " ";
    return out + "left " + std::to_string(found->left);
  }
};

TEST(StoredObject, UidsAreTextsAndBack) {
  for (const std::uint64_t value : {0ull, 1ull, 0x0123456789abcdefull, ~0ull})
    EXPECT_EQ(uid_of(uid_text(Uid(value))), Uid(value));
  EXPECT_EQ(uid_text(Uid(0x0123456789abcdefull)), "456789ab-cdef-4000-8000-0123636b7374");
  for (const char* other : {"", "x", "456789ab-cdef-4000-8000-0123636b7375", "456789ab-cdef-4000-8000-0123636b737",
                            "g56789ab-cdef-4000-8000-0123636b7374"})
    EXPECT_EQ(uid_of(other), std::nullopt) << other;
}

TEST(StoredObject, WhatIsTakenApartIsShownAgain) {
  json::object tree =
      json::parse(R"({"kind":"ConfigMap","apiVersion":"v1","data":{"k":"v"},"metadata":{"name":"x","namespace":"n",
    "labels":{"b":"2","a":"1"},"annotations":{"q\"":"line\n"},"finalizers":["example.com/f"],"generation":3,
    "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"00000000-0007-4000-8000-0000636b7374","controller":true}]}})")
          .as_object();
  Object object = object_of(kType, tree);
  EXPECT_EQ(object.meta.name, "x");
  EXPECT_EQ(object.meta.ns, "n");
  ASSERT_TRUE(object.meta.extra);
  EXPECT_EQ(object.meta.extra->labels, (std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"b", "2"}}));
  ASSERT_EQ(object.meta.extra->owners.size(), 1u);
  EXPECT_EQ(object.meta.extra->owners[0].uid, Uid(7));
  EXPECT_TRUE(object.body.starts_with(R"({"metadata":{)"));
  object.meta.uid = Uid(9);
  object.meta.seq = 12;
  json::object shown = tree_of(object, {"v1", "ConfigMap"}, {});
  EXPECT_EQ(shown["metadata"].as_object()["resourceVersion"], "12");
  EXPECT_EQ(shown["metadata"].as_object()["uid"], json::value(json::string_view(uid_text(Uid(9)))));
  for (const char* own : {"resourceVersion", "uid"}) shown["metadata"].as_object().erase(own);
  EXPECT_EQ(shown, tree);
}

TEST(StoredObject, ADamagedBodyIsThatOfAnObjectWithoutAny) {
  Object object = object_of(kType, json::parse(R"({"metadata":{"name":"x"},"data":{"k":1}})").as_object());
  for (const char* body : {R"({"metadata":{},"data":{"k":+Inf}})", R"({"metadata":{},"da)", "", "5"}) {
    object.body = body;
    json::object shown = tree_of(object, {"v1", "ConfigMap"}, {});
    EXPECT_EQ(shown["metadata"].as_object()["name"], "x");
    EXPECT_FALSE(shown.contains("data"));
    EXPECT_TRUE(parse_own(object.body.get()).at("metadata").is_object());
  }
}

// The collector gives dependents up in the envelope: nobody sees the owner any more.
TEST(StoredObject, OwnersThatWereTakenOffAreNotShown) {
  Object object = object_of(kType, json::parse(R"({"metadata":{"name":"x","ownerReferences":[
      {"apiVersion":"v1","kind":"Pod","name":"p","uid":"00000000-0007-4000-8000-0000636b7374"},
      {"apiVersion":"v1","kind":"Pod","name":"q","uid":"00000000-0008-4000-8000-0000636b7374"},
      {"apiVersion":"v1","kind":"Pod","name":"elsewhere","uid":"11111111-2222-3333-4444-555555555555"}]}})")
                                       .as_object());
  auto extra = std::make_shared<MetaExtra>(*object.meta.extra);
  std::erase_if(extra->owners, [](const OwnerRef& owner) { return owner.uid == Uid(7); });
  object.meta.extra = std::move(extra);
  json::object shown = tree_of(object, {"v1", "ConfigMap"}, {});
  const json::array& references = shown["metadata"].as_object()["ownerReferences"].as_array();
  ASSERT_EQ(references.size(), 2u);
  EXPECT_EQ(references[0].at("name"), "q");
  EXPECT_EQ(references[1].at("name"), "elsewhere");
  object.meta.extra = nullptr;
  object.body = R"({"metadata":{"ownerReferences":[{"uid":"00000000-0007-4000-8000-0000636b7374"}]},"data":{}})";
  shown = tree_of(object, {"v1", "ConfigMap"}, {});
  EXPECT_FALSE(shown["metadata"].as_object().contains("ownerReferences"));
}

TEST(StoredObject, MetadataStandsFirstWhereverItStood) {
  EXPECT_EQ(body_text(json::parse(R"({"kind":"K","spec":1,"metadata":{"a":1}})").as_object()),
            R"({"metadata":{"a":1},"spec":1})");
  EXPECT_EQ(body_text({}), R"({"metadata":{}})");
  EXPECT_EQ(body_text(json::parse(R"({"metadata":5})").as_object()), R"({"metadata":{}})");
}

TEST(ObjectHistory, AListGoesOnWithWhatWasThereWhenItBegan) {
  Told t;
  for (const char* name : {"a", "b", "c", "d"}) t.put(name);
  const Seq then = t.seq;
  EXPECT_EQ(t.page(then, 2), "a/a=\"} a/b=\"} left 2");
  t.put("b", "a", "changed");
  t.put("bb");
  t.remove("c");
  t.put("c", "a", "again");
  t.remove("d");
  const ObjectKey after{std::string(kType), "a", "b"};
  EXPECT_EQ(t.page(then, 9, &after), "a/c=\"} a/d=\"} left 0");
  EXPECT_EQ(t.page(t.seq, 9), "a/a=\"} a/b=changed\"} a/bb=\"} a/c=again\"} left 0");
  t.put("z", "other");
  EXPECT_EQ(t.page(t.seq, 9, nullptr, "other"), "other/z=\"} left 0");
  EXPECT_EQ(t.page(t.seq, 1, nullptr, "a"), "a/a=\"} left 3");
  EXPECT_EQ(t.page(then, 1, nullptr, "a"), "a/a=\"} left 3");
}

TEST(ObjectHistory, AVersionIsToldWithWhatItShowedThen) {
  Told t;
  Job job;
  job.id = JobId(7);
  const auto put_job = [&](JobState state) {
    job.state = state;
    job.meta.seq = ++t.seq;
    t.tell({t.seq, std::make_shared<const Job>(job), false});
  };
  const auto put_pod = [&] {
    Object pod = *t.put("p");
    pod.meta.seq = ++t.seq;
    pod.shows = {{.kind = Kind::kJob, .job = job.id}};
    t.tell({t.seq, std::make_shared<const Object>(std::move(pod)), false});
  };
  put_job(JobState::kRunning);
  put_pod();
  put_job(JobState::kCompleted);
  put_pod();
  t.remove("p");
  std::string said;
  const auto name = [](const ShownRecords& shows) {
    return !shows.job ? "nothing " : shows.job->state == JobState::kRunning ? "running " : "completed ";
  };
  for (const auto& entry : *t.history.since(kType, 10)->entries)
    said += std::string(name(entry.before_shows)) + name(entry.after_shows);
  EXPECT_EQ(said, "nothing nothing nothing running running nothing nothing completed completed nothing ");
}

TEST(ObjectHistory, WhatIsTooLongAgoIsSaid) {
  Told t({.changes = 3, .bytes = 1 << 20});
  for (const char* name : {"a", "b", "c", "d", "e"}) t.put(name);
  EXPECT_FALSE(t.history.since(kType, 11));
  ASSERT_TRUE(t.history.since(kType, 12));
  EXPECT_EQ(t.history.since(kType, 12)->from, 0u);
  EXPECT_EQ(t.history.since(kType, 14)->from, 2u);
  EXPECT_EQ(t.page(10, 9), "too old");
  EXPECT_FALSE(t.history.since("pods", 9));
  EXPECT_TRUE(t.history.since("pods", 10));
}

TEST(ObjectHistory, BytesAreBounded) {
  Told t({.changes = 1000, .bytes = 10'000});
  for (int i = 0; i < 100; ++i) t.put("a", "a", std::string(1000, 'x'));
  EXPECT_FALSE(t.history.since(kType, 20));
  EXPECT_TRUE(t.history.since(kType, t.seq));
}

}  // namespace
}  // namespace lockstep::kube
