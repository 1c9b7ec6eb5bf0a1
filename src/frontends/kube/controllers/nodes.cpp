// A Node object for each node of the cluster: labels and annotations lie in it, the rest is a view of our record
// (kinds/node_view.h). It comes and goes with the record; one that users made for a node that is not there is theirs.
// One that users delete comes back as long as there is the record, with what that knows of their additions.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/node_change.h"
#include "frontends/kube/kinds/node_held.h"
#include "frontends/kube/kinds/node_lease.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kLeaseSeconds = 40;
constexpr Duration kAgentsWord = seconds(10);  // between words of its agent on how the node is, as of a kubelet's
constexpr const char* kWrittenNote = "lockstep.io/conditions-written";  // since when the agent's are somebody else's

// It goes with the Node.
json::object new_lease_tree(const Object& node) {
  const std::string& name = node.meta.name;
  json::object owner{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", name}, {"uid", uid_text(node.meta.uid)}};
  json::object tree;
  tree["metadata"] = json::object{{"name", name},
                                  {"namespace", json::string_view(kNodeLeases.data(), kNodeLeases.size())},
                                  {"ownerReferences", json::array{std::move(owner)}}};
  tree["spec"] = json::object{{"holderIdentity", name}, {"leaseDurationSeconds", kLeaseSeconds}};
  return tree;
}

class NodeController final : public Reconciler {
 public:
  std::string_view name() const override { return "nodes"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kNodes)
      out.push_back(key_of(changed));
    else if (is_node_lease(changed))
      out.push_back({std::string(kNodes), "", changed.meta.name});
    else if (changed.type == "namespaces" && changed.meta.name == kNodeLeases)
      for (const auto& [id, node] : view.tables().nodes) out.push_back({std::string(kNodes), "", node->meta.name});
  }
  void woken_by_record(const ObjectView& view, const Change& change, std::vector<ObjectKey>& out) const override {
    if (const auto* node = std::get_if<Ref<Node>>(&change.record))
      out.push_back({std::string(kNodes), "", (*node)->meta.name});
    for (const NodeId id : view.touched_nodes())
      if (const Node* node = view.tables().node(id))
        out.push_back({std::string(kNodes), "", node->meta.name});
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const std::string& name = std::get<2>(key);
    const Node* node = view.tables().node(name);
    const auto object = view.find(kNodes, "", name);
    if (node && !object) {
      wish_new(out, view, now, kNodes, new_node_tree(*node), {{Kind::kNode, {}, 0, 0, node->id}});
    } else if (node && object && !is_deleting(*object) && object->shows.empty()) {
      adopt(*object, *node, out);
    } else if (node && object && !is_deleting(*object)) {
      keep_lease(view, now, *object, out);
      if (keep_tree(view, now, *object, *node, out))
        return;
      // What the object said before the record knew, or since somebody changed it otherwise than by the API.
      auto change = node_change(*node, nullptr, tree_of(*object, {"v1", "Node"}, {}), {});
      if (!change)
        change.emplace(UpdateNode{.name = name});
      change->added_counted = with_disk(*node);  // of the rest what the record says is what is shown
      if (change->labels || change->marks || change->added_counted)
        out.add(std::move(*change), {.records = {{key_of(*object), object->meta.seq}}});
    } else if (!node && object && !is_deleting(*object)) {
      const bool ours = !object->shows.empty();
      if (ours)
        out.add(RemoveObject{object->type, "", name, object->meta.seq});
    }
  }

 private:
  // Somebody made it before the node came: it is the node's from now on.
  static void adopt(const Object& object, const Node& node, Wishes& out) {
    json::object tree = whole_tree(object);
    json::value& labels = tree["metadata"].as_object()["labels"];
    json::object& own = labels.is_object() ? labels.get_object() : labels.emplace_object();
    const json::object made = new_node_tree(node);
    for (const auto& [key, value] : part(part(made, "metadata"), "labels").as_object())
      if (!own.contains(key))
        own[key] = value;
    Object adopted = in_place_of(object, std::move(tree));
    adopted.shows = {{Kind::kNode, {}, 0, 0, node.id}};
    out.add(PutObject{std::move(adopted), object.meta.seq});
  }

  // What lies in the object and follows from elsewhere. Whether it is being changed.
  static bool keep_tree(const ObjectView& view, Instant now, const Object& object, const Node& node, Wishes& out) {
    json::object tree = whole_tree(object);
    bool changes = put_found_labels(tree, node);
    changes |= note_held(view, now, node, tree, out);
    changes |= drop_written(view, now, tree, out);
    if (changes)
      out.add(PutObject{in_place_of(object, std::move(tree)), object.meta.seq});
    return changes;
  }

  // What other work holds there, told at a pace at which all nodes together cost little.
  static bool note_held(const ObjectView& view, Instant now, const Node& node, json::object& tree, Wishes& out) {
    NodeLoad load;
    for (const JobId id : view.other_jobs_on(node.id))
      if (const Job* job = view.tables().job(id); job && job->allocation)
        for (const Grant& grant : job->allocation->grants)
          if (grant.node == node.id)
            add_grant(load, grant);
    json::object held = held_on(node, load);
    json::object& notes = notes_of(tree);
    boost::system::error_code failed;
    const std::string said = text_in(notes, kHeldNote);
    const json::value read = said.empty() ? json::value() : json::parse(said, failed);
    json::object before = !failed && read.is_object() ? read.get_object() : json::object();
    const auto told = parse_timestamp(text_in(before, "at"));
    before.erase("at");
    const bool same = same_json(before, held);
    const WallTime due{told ? told->us + pace_of(view).us : 0};
    if (!same && due > wall_time(view, now)) {
      out.look_again(instant_of(view, due));
    } else if (!same && held.empty()) {
      notes.erase(kHeldNote);
    } else if (!same) {
      held["at"] = time_text(now, view.wall_offset());
      notes[kHeldNote] = json::serialize(held);
    }
    if (notes.empty())
      tree["metadata"].as_object().erase("annotations");
    return !same && due <= wall_time(view, now);
  }

  static Duration pace_of(const ObjectView& view) {
    constexpr Duration kLeast = seconds(5), kForEach = millis(50);
    return std::max(kLeast, kForEach * static_cast<std::int64_t>(view.tables().nodes.size()));
  }

  static json::object& notes_of(json::object& tree) {
    json::value& value = tree["metadata"].as_object()["annotations"];
    return value.is_object() ? value.get_object() : value.emplace_object();
  }

  // Conditions of the agent's that somebody has written, when its next word is due.
  static bool drop_written(const ObjectView& view, Instant now, json::object& tree, Wishes& out) {
    json::value* status = tree.if_contains("status");
    const json::array* all = status ? member_array(*status, "conditions") : nullptr;
    const auto own = [](const json::value& one) { return is_own_condition(text_in(one, "type")); };
    if (!all || std::ranges::none_of(*all, own))
      return false;
    json::object& notes = notes_of(tree);
    const auto noted = parse_timestamp(text_in(notes, kWrittenNote));
    const WallTime due{noted ? noted->us + kAgentsWord.us : 0};
    if (!noted) {
      notes[kWrittenNote] = time_text(now, view.wall_offset());
      return true;
    }
    if (due > wall_time(view, now)) {
      out.look_again(instant_of(view, due));
      return false;
    }
    notes.erase(kWrittenNote);
    if (notes.empty())
      tree["metadata"].as_object().erase("annotations");
    json::array others;
    for (const json::value& one : *all)
      if (!own(one))
        others.push_back(one);
    if (others.empty())
      status->as_object().erase("conditions");
    else
      status->as_object()["conditions"] = std::move(others);
    return true;
  }

  // What is counted there beside what its agent tells, where the disk is to be otherwise.
  static std::optional<std::vector<Counted>> with_disk(const Node& node) {
    const std::optional<Counted> disk = disk_of_node(node);
    std::vector<Counted> out = node.added_counted;
    std::erase_if(out, [&](const Counted& one) { return one.name == kEphemeralStorage && one != disk; });
    if (disk && std::ranges::find(out, *disk) == out.end())
      out.push_back(*disk);
    std::ranges::sort(out);
    return out == node.added_counted ? std::nullopt : std::optional(std::move(out));
  }

  static void keep_lease(const ObjectView& view, Instant now, const Object& node, Wishes& out) {
    const std::string ns(kNodeLeases);
    if (!view.find(kLeases, ns, node.meta.name) && takes_new_objects(view, ns))
      wish_new(out, view, now, kLeases, new_lease_tree(node));
  }
};

}  // namespace

std::shared_ptr<const Reconciler> node_controller() { return std::make_shared<NodeController>(); }

}  // namespace lockstep::kube
