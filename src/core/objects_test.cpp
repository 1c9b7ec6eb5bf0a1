#include <gtest/gtest.h>

#include "base/text.h"
#include "core/testing.h"
#include "model/bounds.h"
#include "model/job.h"

namespace lockstep {
namespace {

Object object_of(const std::string& type, const std::string& name) {
  Object object;
  object.type = type;
  object.meta.name = name;
  return object;
}

Object owned(Object object, const Object& owner, bool blocks = false) {
  auto extra = std::make_shared<MetaExtra>();
  extra->owners = {{Kind::kObject, owner.meta.uid, owner.meta.name, true, blocks}};
  object.meta.extra = std::move(extra);
  return object;
}

const Object* find(const World& w, const std::string& type, const std::string& name) {
  const auto& objects = w.state.tables().objects;
  const auto it = objects.find({type, "", name});
  return it == objects.end() ? nullptr : it->second.get();
}

const Object& put(World& w, const Object& object) {
  w.must(PutObject{object, 0});
  return *find(w, object.type, object.meta.name);
}

// A job with an object that shows it.
JobId submit_shown(World& w, const std::string& name) {
  SubmitJob ask{.spec = std::make_shared<const JobSpec>(World::batch())};
  Object pod = object_of("v1/Pod", name);
  pod.shows = {{.kind = Kind::kJob}};
  ask.objects = {pod};
  return w.submit(ask);
}

TEST(Objects, CompareAndSet) {
  World w;
  Object object = object_of("v1/ConfigMap", "settings");
  object.meta.ns = "default";
  object.body = "a";
  EXPECT_EQ(w.refused(PutObject{object, 5}), Errc::kConflict);
  const Seq first = w.must(PutObject{object, 0}).seq;
  object.body = "b";
  w.must(PutObject{object, first});
  EXPECT_EQ(w.refused(PutObject{object, first}), Errc::kConflict);
  const Object& now = *w.state.tables().objects.begin()->second;
  EXPECT_EQ(now.meta.generation, 2u);
  EXPECT_EQ(now.meta.uid, Uid(first));
  EXPECT_EQ(w.refused(RemoveObject{"v1/ConfigMap", "default", "settings", first}), Errc::kConflict);
  w.must(RemoveObject{"v1/ConfigMap", "default", "settings", 0});
  EXPECT_EQ(w.refused(RemoveObject{"v1/ConfigMap", "default", "settings", 0}), Errc::kNotFound);
}

TEST(Objects, ADeletionOnlyMarksWhatIsKept) {
  World w;
  Object object = object_of("v1/Pod", "a");
  auto extra = std::make_shared<MetaExtra>();
  extra->finalizers = {"wait"};
  object.meta.extra = extra;
  put(w, object);
  w.must(RemoveObject{"v1/Pod", "", "a", 0});
  ASSERT_TRUE(find(w, "v1/Pod", "a"));
  EXPECT_TRUE(find(w, "v1/Pod", "a")->meta.extra->deleting);
  extra = std::make_shared<MetaExtra>(*extra);
  extra->finalizers = {"wait", "longer"};
  object.meta.extra = extra;
  EXPECT_EQ(w.refused(PutObject{object, 0}), Errc::kConflict);  // too late for one more
  object.meta.extra = nullptr;
  w.must(PutObject{object, 0});
  EXPECT_FALSE(find(w, "v1/Pod", "a"));
}

TEST(Objects, TheForegroundAndOrphansAreFinalizers) {
  World w;
  put(w, object_of("x/A", "a"));
  put(w, object_of("x/A", "b"));
  w.must(RemoveObject{"x/A", "", "a", 0, RemoveObject::Dependents::kForeground});
  w.must(RemoveObject{"x/A", "", "b", 0, RemoveObject::Dependents::kOrphan});
  EXPECT_EQ(find(w, "x/A", "a")->meta.extra->finalizers, std::vector<std::string>{kForeground});
  EXPECT_EQ(find(w, "x/A", "b")->meta.extra->finalizers, std::vector<std::string>{kOrphan});
}

TEST(Objects, AdvanceWithWhatTheyShow) {
  World w(2);
  const JobId job = submit_shown(w, "p");
  ASSERT_EQ(find(w, "v1/Pod", "p")->shows.at(0).job, job);
  Object node = object_of("v1/Node", "n1");
  node.shows = {{.kind = Kind::kNode, .node = w.id(1)}};
  const Seq drawn = put(w, node).meta.seq;
  const Seq submitted = find(w, "v1/Pod", "p")->meta.seq;
  w.settle();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  const Seq started = find(w, "v1/Pod", "p")->meta.seq;
  EXPECT_GT(started, submitted);
  EXPECT_EQ(find(w, "v1/Node", "n1")->meta.seq, drawn);
  w.must(UpdateNode{.name = w.state.tables().node(w.id(1))->meta.name, .drain = true});
  EXPECT_GT(find(w, "v1/Node", "n1")->meta.seq, drawn);
  EXPECT_EQ(find(w, "v1/Pod", "p")->meta.seq, started);
}

TEST(Objects, KeepTheEndOfWhatIsForgotten) {
  World w(1);
  const JobId job = submit_shown(w, "p");
  w.settle();
  EXPECT_TRUE(find(w, "v1/Pod", "p")->ended.empty());
  w.end_script(job, {.code = 3});
  w.obey();
  const auto ended = find(w, "v1/Pod", "p")->ended;
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].state, JobState::kFailed);
  EXPECT_EQ(ended[0].exit.code, 3);
  EXPECT_EQ(ended[0].ran_on, "n1");
  const Seq before = find(w, "v1/Pod", "p")->meta.seq;
  w.pass(minutes(10));
  ASSERT_FALSE(w.state.tables().job(job));
  EXPECT_EQ(find(w, "v1/Pod", "p")->ended, ended);
  EXPECT_GT(find(w, "v1/Pod", "p")->meta.seq, before);  // it shows less now
}

TEST(Objects, GoWhenTheirWorkHasStopped) {
  World w(1);
  const JobId job = submit_shown(w, "p");
  w.settle();
  w.must(RemoveObject{"v1/Pod", "", "p", 0});
  ASSERT_TRUE(find(w, "v1/Pod", "p"));
  w.must(CancelJob{{job, {}}});
  ASSERT_TRUE(find(w, "v1/Pod", "p"));  // not proven yet
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kCancelled);
  EXPECT_FALSE(find(w, "v1/Pod", "p"));
}

TEST(Objects, ARecordIsShownByAFew) {
  World w(1);
  Object node = object_of("v1/Node", "");
  node.shows = {{.kind = Kind::kNode, .node = w.id(1)}};
  for (std::size_t i = 0; i < kShowsMax; ++i) {
    node.meta.name = format("n{}", i);
    put(w, node);
  }
  put(w, node);  // it does so already
  node.meta.name = "one-more";
  EXPECT_EQ(w.refused(PutObject{node, 0}), Errc::kExhausted);
}

TEST(Readings, OfRecords) {
  World w(1);
  const JobId job = w.submit(World::batch());
  const Seq job_seq = w.job(job).meta.seq;
  const Seq seq = put(w, object_of("x/A", "a")).meta.seq;
  const ObjectKey a{"x/A", "", "a"}, b{"x/A", "", "b"};
  const auto with = [&](std::vector<Reading::Record> records) {
    return w.run(PutObject{object_of("x/B", "made"), 0}, kController, {.records = std::move(records)});
  };
  EXPECT_TRUE(with({{a, seq}, {job, job_seq}, {b, 0}}).ok());
  EXPECT_EQ(with({{a, seq + 1}}).error().code, Errc::kConflict);
  EXPECT_EQ(with({{job, job_seq + 1}}).error().code, Errc::kConflict);
  EXPECT_EQ(with({{b, 1}}).error().code, Errc::kConflict);
  EXPECT_EQ(with({{a, 0}}).error().code, Errc::kConflict);
  EXPECT_FALSE(with(std::vector<Reading::Record>(kReadingsMax + 1, {a, seq})).ok());
}

TEST(Readings, OfDependents) {
  World w(1);
  const Object owner = put(w, object_of("x/A", "a"));
  const auto since = [&](Seq seq) {
    return w.run(PutObject{object_of("x/C", "c"), 0}, kController, {.dependents = {{owner.meta.uid, seq}}});
  };
  const auto now = [&] { return w.state.tables().seq; };
  const Seq begin = now();
  EXPECT_TRUE(since(begin).ok());
  put(w, owned(object_of("x/B", "b"), owner));
  EXPECT_EQ(since(begin).error().code, Errc::kConflict);  // one was made
  const Seq made = now();
  EXPECT_TRUE(since(made).ok());
  put(w, object_of("x/B", "b"));  // it has left its owner
  EXPECT_EQ(since(made).error().code, Errc::kConflict);
  put(w, owned(object_of("x/B", "b"), owner));
  const Seq back = now();
  w.must(RemoveObject{"x/B", "", "b", 0});
  EXPECT_EQ(since(back).error().code, Errc::kConflict);
  EXPECT_TRUE(since(now()).ok());
  w.must(RemoveObject{"x/A", "", "a", 0});
  EXPECT_EQ(since(now()).error().code, Errc::kConflict);  // there is no owner any more
}

// Removals before it are known to nobody after a restart.
TEST(Readings, EverythingCountsAsChangedAtARestart) {
  World w(1);
  const Object owner = put(w, object_of("x/A", "a"));
  put(w, owned(object_of("x/B", "b"), owner));
  const Seq read = w.state.tables().seq;
  w.must(RemoveObject{"x/B", "", "b", 0});
  ClusterState again;
  again.restore(w.state.tables().snapshot());
  const auto with = [&](Seq since) {
    return apply(again,
                 {kController, PutObject{object_of("x/C", "c"), 0}, {}, {.dependents = {{owner.meta.uid, since}}}},
                 w.now);
  };
  EXPECT_FALSE(with(read).ok());
  EXPECT_TRUE(with(again.tables().seq).ok());
}

TEST(Readings, AJobWithoutThatOwner) {
  World w(1);
  const JobId job = submit_shown(w, "p");
  const Uid owner = find(w, "v1/Pod", "p")->meta.uid;
  EXPECT_FALSE(w.run(DisownJob{job, owner}, {UserId{1}, false}).ok());
  w.must(DisownJob{job, owner});
  EXPECT_FALSE(w.job(job).meta.extra);
  w.must(RemoveObject{"v1/Pod", "", "p", 0});
  EXPECT_FALSE(find(w, "v1/Pod", "p"));  // the job is none of its business any more
}

}  // namespace
}  // namespace lockstep
