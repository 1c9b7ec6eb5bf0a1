// WorkloadRig: a small API for tests of controllers: it does what they ask, all of a wish or nothing, with the core's
// conditions, and tells them. Tests play users and nodes.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/reconcilers.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"
#include "model/object_share.h"
#include "model/step.h"

namespace lockstep::kube {

struct WorkloadRig {
  explicit WorkloadRig(std::vector<std::shared_ptr<const Reconciler>> all,
                       std::shared_ptr<PodAdmission> admission = nullptr)
      : actor(std::move(all), std::move(admission)) {
    actor.restart({});
    put("namespaces", R"({"metadata":{"name":"n"}})");
    put("serviceaccounts", R"({"metadata":{"name":"default","namespace":"n"}})");
  }

  Reconcilers actor;
  Tables tables;
  Instant now{1'700'000'000'000'000};
  bool linger = false;                  // pods that are deleted stay until finish_deletions()
  std::size_t objects_max = 1'000'000;  // but events: a share that is used up

  // --- as the core does ---

  struct Staged {
    Tables tables;
    std::vector<Change> changes;
  };
  void write(Staged& staged, Object object, bool goes = false) const {
    const auto known = staged.tables.objects.find(key_of(object));
    const Seq seq = staged.tables.seq + 1;
    object.meta.seq = seq;
    object.meta.uid = known == staged.tables.objects.end() ? Uid(seq) : known->second->meta.uid;
    object.meta.created = known == staged.tables.objects.end() ? now : known->second->meta.created;
    Change change{seq, std::make_shared<const Object>(std::move(object)), goes};
    staged.tables.apply(change);
    staged.changes.push_back(std::move(change));
  }
  // What shows the record advances with it.
  template <class Record>
  void write_record(Staged& staged, Record record) const {
    record.meta.seq = staged.tables.seq + 1;
    std::vector<Ref<Object>> shows;
    if constexpr (std::is_same_v<Record, Job>)
      for (const auto& [key, object] : staged.tables.objects)
        if (std::ranges::any_of(object->shows, [&](const Shown& one) { return one.job == record.id; }))
          shows.push_back(object);
    Change change{record.meta.seq, std::make_shared<const Record>(std::move(record)), false};
    staged.tables.apply(change);
    staged.changes.push_back(std::move(change));
    for (const auto& object : shows) write(staged, *object);
  }
  template <class Record>
  void put_record(Record record) {
    Staged staged{tables, {}};
    write_record(staged, std::move(record));
    commit(std::move(staged));
  }
  bool may_go(const Object& object) const {
    return is_deleting(object) && object.meta.extra->finalizers.empty() && !(linger && object.type == "pods");
  }
  bool is_full(const Tables& all) const {
    return all.objects.size() >= objects_max &&
           static_cast<std::size_t>(std::ranges::count_if(
               all.objects, [](const auto& one) { return std::get<0>(one.first) != "events"; })) >= objects_max;
  }
  Result<void> perform(Staged& staged, const CommandBody& body) const {
    if (const auto* wanted = std::get_if<PutObject>(&body)) {
      const auto at = staged.tables.objects.find(key_of(wanted->object));
      const bool there = at != staged.tables.objects.end();
      if (wanted->if_seq != 0 && (!there || at->second->meta.seq != wanted->if_seq))
        return conflict("stale: " + wanted->object.meta.name);
      if (!there && wanted->object.type != "events" && is_full(staged.tables))
        return Error{Errc::kExhausted, "namespace n is full", "also[1]." + std::string(kObjectShareField)};
      Object object = wanted->object;
      if (there && is_deleting(*at->second)) {
        auto extra = std::make_shared<MetaExtra>(object.meta.extra ? *object.meta.extra : MetaExtra{});
        extra->deleting = at->second->meta.extra->deleting;
        object.meta.extra = std::move(extra);
      }
      const bool goes = may_go(object);
      write(staged, std::move(object), goes);
    } else if (const auto* gone = std::get_if<RemoveObject>(&body)) {
      const auto at = staged.tables.objects.find({gone->type, gone->ns, gone->name});
      if (at == staged.tables.objects.end())
        return not_found("gone: " + gone->name);
      if (gone->if_seq != 0 && at->second->meta.seq != gone->if_seq)
        return conflict("stale: " + gone->name);
      Object object = *at->second;
      auto extra = std::make_shared<MetaExtra>(object.meta.extra ? *object.meta.extra : MetaExtra{});
      extra->deleting = now;
      object.meta.extra = std::move(extra);
      const bool goes = may_go(object);
      write(staged, std::move(object), goes);
    } else if (const auto* cancel = std::get_if<CancelJob>(&body)) {
      const Job* known = staged.tables.job(cancel->target.job);
      if (!known)
        return not_found("gone: a job");
      Job job = *known;
      job.ending = JobState::kCancelled;
      job.state = cancel->signal == 9 ? JobState::kCancelled : JobState::kCompleting;
      if (cancel->signal == 9)
        job.ended = now;
      write_record(staged, std::move(job));
    } else if (const auto* update = std::get_if<UpdateNode>(&body)) {
      const Node* known = staged.tables.node(update->name);
      if (!known)
        return not_found("gone: a node");
      Node node = *known;
      node.labels = update->labels.value_or(node.labels);
      node.marks = update->marks.value_or(node.marks);
      node.added_counted = update->added_counted.value_or(node.added_counted);
      write_record(staged, std::move(node));
    } else {
      return invalid("the rig knows objects, nodes and the ends of jobs alone");
    }
    return {};
  }
  void commit(Staged staged) {
    tables = std::move(staged.tables);
    actor.observe(staged.changes);
  }
  Result<Answer> apply(const Actor::Ask& ask) {
    for (const auto& record : ask.read.records) {
      if (const auto* job = std::get_if<JobId>(&record.key)) {
        if (const Job* known = tables.job(*job); (known ? known->meta.seq : 0) != record.seq)
          return conflict("stale reading of a job");
        continue;
      }
      const auto at = tables.objects.find(std::get<ObjectKey>(record.key));
      if ((at == tables.objects.end() ? 0 : at->second->meta.seq) != record.seq)
        return conflict("stale reading of " + std::get<2>(std::get<ObjectKey>(record.key)));
    }
    Staged staged{tables, {}};
    std::vector<CommandBody> bodies{ask.body};
    bodies.insert(bodies.end(), ask.also.begin(), ask.also.end());
    for (const CommandBody& body : bodies)
      if (auto done = perform(staged, body); !done.ok())
        return done.error();
    commit(std::move(staged));
    return Answer{.seq = tables.seq};
  }

  // Until nothing is to be done now; how many commands that took.
  int run() {
    int commands = 0;
    for (int rounds = 0; actor.next_timer() <= now + millis(100); ++rounds) {
      if (rounds == 2000) {
        ADD_FAILURE() << "the controllers find no end";
        break;
      }
      now = std::max(now, actor.next_timer());
      for (const Actor::Ask& ask : actor.step(now, {}).asks) {
        ++commands;
        actor.answered(ask.id, apply(ask), now);
      }
    }
    return commands;
  }
  void advance(Duration by) {
    const Instant until = now + by;
    run();
    while (actor.next_timer() <= until) {
      now = std::max(now, actor.next_timer());
      run();
    }
    now = std::max(now, until);
    run();
  }

  // --- as users and nodes do ---

  void put(std::string_view type, json::object tree) {
    json::object& metadata = tree["metadata"].as_object();
    if (!metadata.contains("creationTimestamp"))
      metadata["creationTimestamp"] = time_text(now, {});
    if (!metadata.contains("generation"))
      metadata["generation"] = 1;
    Staged staged{tables, {}};
    write(staged, object_of(type, std::move(tree)));
    commit(std::move(staged));
  }
  void put(std::string_view type, std::string_view text) {
    put(type, json::parse(json::string_view(text.data(), text.size())).as_object());
  }
  // Another version; its generation moves on when `spec` is changed.
  template <class Edit>
  void edit(const char* type, const std::string& name, Edit edit_tree) {
    json::object tree = this->tree(type, name);
    const json::value before = part(tree, "spec");
    edit_tree(tree);
    if (!same_json(before, part(tree, "spec")))
      tree["metadata"].as_object()["generation"] =
          static_cast<std::int64_t>(number_of(part(part(tree, "metadata"), "generation"))) + 1;
    Object object = object_of(type, std::move(tree));
    object.shows = find(type, name)->shows;
    Staged staged{tables, {}};
    ASSERT_TRUE(perform(staged, PutObject{std::move(object), 0}).ok());
    commit(std::move(staged));
  }
  void remove(const char* type, const std::string& name) {
    Staged staged{tables, {}};
    ASSERT_TRUE(perform(staged, RemoveObject{type, "n", name}).ok());
    commit(std::move(staged));
  }
  void remove_node(const std::string& name) {
    Staged staged{tables, {}};
    ASSERT_TRUE(perform(staged, RemoveObject{"nodes", "", name}).ok());
    commit(std::move(staged));
  }
  void finish_deletions() {
    linger = false;
    Staged staged{tables, {}};
    for (const auto& [key, object] : tables.objects)
      if (may_go(*object))
        write(staged, *object, true);
    commit(std::move(staged));
  }
  void tell_pod(const std::string& name, const char* phase, bool ready, int exit_code = 0) {
    edit("pods", name, [&](json::object& tree) {
      json::object& status = tree["status"].emplace_object();
      const std::string time = time_text(now, {});
      status["phase"] = phase;
      status["conditions"] = json::array{
          json::object{{"type", "Ready"}, {"status", ready ? "True" : "False"}, {"lastTransitionTime", time}}};
      if (std::string_view(phase) == "Failed" || std::string_view(phase) == "Succeeded")
        status["containerStatuses"] = json::array{
            json::object{{"name", "c"}, {"state", {{"terminated", {{"exitCode", exit_code}, {"finishedAt", time}}}}}}};
      tree["spec"].as_object()["nodeName"] =
          text_in(part(tree, "spec"), "nodeName").empty() ? "node1" : text_in(part(tree, "spec"), "nodeName");
    });
  }
  void ready_all() {
    for (const std::string& name : names("pods"))
      if (!is_deleting(*find("pods", name)))
        tell_pod(name, "Running", true);
    run();
  }

  // --- looking ---

  Ref<Object> find(const char* type, const std::string& name) const {
    const auto at = tables.objects.find({type, std::string_view(type) == "nodes" ? "" : "n", name});
    return at == tables.objects.end() ? nullptr : at->second;
  }
  json::object tree(const char* type, const std::string& name) const {
    const auto object = find(type, name);
    return object ? tree_of(*object, {"", ""}, {}) : json::object();
  }
  json::value status(const char* type, const std::string& name) const { return part(tree(type, name), "status"); }
  std::vector<std::string> names(const char* type) const {
    std::vector<std::string> out;
    for (const auto& [key, object] : tables.objects)
      if (std::get<0>(key) == type)
        out.push_back(object->meta.name);
    return out;
  }
  std::vector<std::string> pods_of(const char* type, const std::string& name) const {
    std::vector<std::string> out;
    const auto owner = find(type, name);
    for (const auto& [key, object] : tables.objects)
      if (std::get<0>(key) == "pods" && owner && object->meta.extra && !object->meta.extra->owners.empty() &&
          object->meta.extra->owners.front().uid == owner->meta.uid)
        out.push_back(object->meta.name);
    return out;
  }
  std::int64_t number(const char* type, const std::string& name, const char* key) const {
    return static_cast<std::int64_t>(number_of(part(status(type, name), key)));
  }
  std::string condition(const char* type, const std::string& name, const char* which) const {
    const json::value told = status(type, name);
    if (const json::array* all = member_array(told, "conditions"))
      for (const json::value& one : *all)
        if (text_in(one, "type") == which)
          return text_in(one, "status") + " " + text_in(one, "reason");
    return "";
  }
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    for (const auto& [key, object] : tables.objects)
      if (std::get<0>(key) == "events") {
        const json::object body = body_of(*object);
        out.push_back(text_in(body, "reason") + ": " + text_in(body, "message"));
      }
    return out;
  }
};

}  // namespace lockstep::kube
