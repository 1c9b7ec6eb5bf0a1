// A Node object for each node of the cluster: labels and annotations lie in it, the rest is a view of our record
// (kinds/node_view.h). It comes and goes with the record; one that users made for themselves is theirs.
#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/node_change.h"
#include "frontends/kube/kinds/node_lease.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kLeaseSeconds = 40;

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
  void woken_by_record(const ObjectView&, const Change& change, std::vector<ObjectKey>& out) const override {
    if (const auto* node = std::get_if<Ref<Node>>(&change.record))
      out.push_back({std::string(kNodes), "", (*node)->meta.name});
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const std::string& name = std::get<2>(key);
    const Node* node = view.tables().node(name);
    const auto object = view.find(kNodes, "", name);
    if (node && !object) {
      wish_new(out, view, now, kNodes, new_node_tree(*node), {{Kind::kNode, {}, 0, 0, node->id}});
    } else if (node && object && !is_deleting(*object) && !object->shows.empty()) {
      keep_lease(view, now, *object, out);
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
