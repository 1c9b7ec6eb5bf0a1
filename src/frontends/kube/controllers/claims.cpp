// Claims and volumes find each other. A claim takes the smallest volume that is as it asks; of the class of local
// folders, one is made on the node of the claim's first pod. What a claim has is given back when it goes: kept for who
// looks (Retain), or removed with what was made for it (Delete). A claim stays while a pod uses it.
// Source: kubernetes.io/docs/concepts/storage/persistent-volumes, …/ephemeral-volumes ("Generic ephemeral volumes").
#include "frontends/kube/kinds/claims.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/admission/standard_parts.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kClaimInUse = "kubernetes.io/pvc-protection", kVolumeInUse = "kubernetes.io/pv-protection";
constexpr WorkloadKind kBinder{"persistentvolumeclaims", "v1", "PersistentVolumeClaim", "persistentvolume-controller"};
constexpr WorkloadKind kPod{"pods", "v1", "Pod", "ephemeral_volume"};

bool is_final_phase(const json::object& pod) {
  const std::string phase = text_in(part(pod, "status"), "phase");
  return phase == "Succeeded" || phase == "Failed";
}

json::object& object_in(json::object& tree, std::string_view name) {
  json::value& value = tree[name];
  return value.is_object() ? value.get_object() : value.emplace_object();
}

Object with_finalizer(Object object, std::string_view finalizer) {
  auto extra = std::make_shared<MetaExtra>(object.meta.extra ? *object.meta.extra : MetaExtra{});
  extra->finalizers.emplace_back(finalizer);
  object.meta.extra = std::move(extra);
  return object;
}

// It may, that is; nearly no pod does, and those are not read.
bool names_claims(const Object& pod) {
  return pod.body.find("persistentVolumeClaim") != std::string::npos || pod.body.find("ephemeral") != std::string::npos;
}

std::string phase_of(const json::object& tree) { return text_in(part(tree, "status"), "phase"); }

class ClaimController final : public Reconciler {
 public:
  std::string_view name() const override { return "volume claims"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kClaims || changed.type == kVolumes)
      out.push_back(key_of(changed));
    if (changed.type == kPods && names_claims(changed)) {
      const json::object pod = body_of(changed);
      const json::object whole = whole_tree(changed);
      for (const json::value& volume : list_in(part(pod, "spec"), "volumes"))
        if (const std::string claim = claim_of_volume(whole, volume); !claim.empty())
          out.push_back({std::string(kClaims), changed.meta.ns, claim});
      if (std::ranges::any_of(list_in(part(pod, "spec"), "volumes"),
                              [](const json::value& volume) { return part(volume, "ephemeral").is_object(); }))
        out.push_back(key_of(changed));
    }
    if (changed.type == kVolumes) {
      const json::object body = body_of(changed);
      const json::value& claim = part(part(body, "spec"), "claimRef");
      if (claim.is_object())
        out.push_back({std::string(kClaims), text_in(claim, "namespace"), text_in(claim, "name")});
      else
        wake_waiting(view, out);
    }
    if (changed.type == kStorageClasses || changed.type == kAttributeClasses)
      wake_waiting(view, out);
    if (changed.type == kClaims) {
      const std::string volume = text_in(part(body_of(changed), "spec"), "volumeName");
      if (!volume.empty())
        out.push_back({std::string(kVolumes), "", volume});
      // Of a claim that has gone the volume still names it.
      if (!view.find(kClaims, changed.meta.ns, changed.meta.name)) {
        out.push_back({std::string(kVolumes), "", volume});
        wake_pods_named(view, changed, out);
      }
    }
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto& [type, ns, name] = key;
    const auto object = view.find(type, ns, name);
    if (!object)
      return;
    if (type == kPods)
      make_claims(view, *object, now, out);
    else if (type == kClaims)
      see_to_claim(view, *object, now, out);
    else
      see_to_volume(view, *object, out);
  }

 private:
  // "a-b-cache": the pod "a" or "a-b" may want to make a claim of that name, which is free now.
  static void wake_pods_named(const ObjectView& view, const Object& claim, std::vector<ObjectKey>& out) {
    const std::string& name = claim.meta.name;
    for (std::size_t end = name.find('-'); end != std::string::npos; end = name.find('-', end + 1))
      if (const auto pod = view.find(kPods, claim.meta.ns, name.substr(0, end)); pod && names_claims(*pod))
        out.push_back(key_of(*pod));
  }

  static void wake_waiting(const ObjectView& view, std::vector<ObjectKey>& out) {
    const auto& objects = view.objects();
    const std::string type(kClaims);
    for (auto at = objects.lower_bound({type, "", ""}); at != objects.end() && std::get<0>(at->first) == type; ++at)
      if (text_in(part(body_of(*at->second), "spec"), "volumeName").empty())
        out.push_back(at->first);
  }

  // --- claims that are made with their pod ---

  static void make_claims(const ObjectView& view, const Object& pod, Instant now, Wishes& out) {
    const json::object tree = whole_tree(pod);
    if (is_deleting(pod) || is_final_phase(tree) || !takes_new_objects(view, pod.meta.ns))
      return;
    for (const json::value& volume : list_in(part(tree, "spec"), "volumes")) {
      const json::value& made = part(part(volume, "ephemeral"), "volumeClaimTemplate");
      const std::string name = claim_of_volume(tree, volume);
      if (!made.is_object() || view.find(kClaims, pod.meta.ns, name))
        continue;
      json::object metadata = part(made, "metadata").is_object() ? part(made, "metadata").get_object() : json::object();
      metadata["name"] = name;
      metadata["namespace"] = pod.meta.ns.get();
      json::object owner = reference_to(pod, kPod);
      metadata["ownerReferences"] = json::array{std::move(owner)};
      wish_new(out, view, now, kClaims,
               {{"metadata", std::move(metadata)}, {"spec", part(made, "spec")}, {"status", {{"phase", "Pending"}}}});
    }
  }

  // --- claims ---

  // Pods that are not over and name it; the first that has a node is what its volume is made for. placed: those that
  // have a job or a node, for which it stays when it is deleted.
  struct Users {
    std::size_t active = 0, placed = 0;
    std::string node;
  };
  static Users users_of(const ObjectView& view, const Object& claim) {
    Users out;
    const std::string quoted = format("\"{}\"", claim.meta.name);
    for (const auto& [key, pod] : view.in(kPods, claim.meta.ns)) {
      // Most pods are none of its users: they are not read for that.
      if (!(pod->body.find(quoted) != std::string::npos || claim.meta.name.starts_with(pod->meta.name + "-")) ||
          !uses_claim(whole_tree(*pod), claim.meta.name))
        continue;
      const auto reading = view.pod(claim.meta.ns, pod->meta.name);
      if (!reading || reading->ended())
        continue;
      ++out.active;
      out.placed += !pod->shows.empty() || !reading->node.empty();
      if (out.node.empty())
        out.node = reading->node;
    }
    return out;
  }

  static void see_to_claim(const ObjectView& view, const Object& claim, Instant now, Wishes& out) {
    const Users users = users_of(view, claim);
    if (is_deleting(claim)) {
      if (users.placed == 0 && has_finalizer(claim, kClaimInUse))
        wish_changed(out, without_finalizer(claim, kClaimInUse), claim.meta.seq);
      return;
    }
    if (!has_finalizer(claim, kClaimInUse))
      return wish_changed(out, with_finalizer(claim, kClaimInUse), claim.meta.seq);
    const json::object tree = whole_tree(claim);
    const std::string bound = text_in(part(tree, "spec"), "volumeName");
    if (!bound.empty())
      return keep_bound(view, claim, tree, bound, out);
    // One that names no class has the standard one, whoever made it and whenever that class came.
    json::object classed = tree;
    choose_storage_class(view.tables(), classed);
    if (!same_json(json::value(classed), json::value(tree)))
      return wish_changed(out, in_place_of(claim, std::move(classed)), claim.meta.seq);
    const auto storage = view.find(kStorageClasses, "", storage_class_of(tree));
    const json::object rules = storage ? body_of(*storage) : json::object();
    const bool waits = text_in(rules, "volumeBindingMode") == "WaitForFirstConsumer";
    const bool ours = text_in(rules, "provisioner") == kLocalProvisioner;
    if (waits && users.active == 0)
      return tell(view, claim, now, "WaitForFirstConsumer", "waiting for first consumer to be created before binding",
                  out);
    if (const auto volume = find_volume(view, claim, tree))
      return bind(claim, tree, *volume, out);
    if (!ours && storage)
      return tell(
          view, claim, now, "ExternalProvisioning",
          format("Waiting for a volume to be created either by the external provisioner '{}' or manually by the "
                 "system administrator. If volume creation is delayed, please verify that the provisioner is "
                 "running and correctly registered.",
                 text_in(rules, "provisioner")),
          out);
    if (!storage && !storage_class_of(tree).empty())
      return tell(view, claim, now, "ProvisioningFailed",
                  format("storageclass.storage.k8s.io {} not found", quoted(storage_class_of(tree))), out, kWarning);
    if (!ours)
      return tell(view, claim, now, "FailedBinding",
                  "no persistent volumes available for this claim and no storage class is set", out);
    if (const std::string why = why_not_local(view.tables(), tree); !why.empty())
      return tell(view, claim, now, "ProvisioningFailed", why, out, kWarning);
    const std::string node = !users.node.empty() ? users.node : waits ? std::string() : any_node(view);
    if (!node.empty())
      provision(view, claim, tree, rules, node, now, out);
  }

  static void tell(const ObjectView& view, const Object& claim, Instant now, const char* reason,
                   const std::string& message, Wishes& out, const char* type = kNormal) {
    if (phase_of(body_of(claim)) != "Pending")
      return set_phase(out, claim, "Pending");
    wish_event(out, view, now, claim, kBinder, type, reason, message);
  }

  static std::string any_node(const ObjectView& view) {
    for (const auto& [id, node] : view.tables().nodes)
      if (node->link == NodeLink::kUp)
        return node->meta.name;
    return {};
  }

  // The one that is kept for it, else the smallest that nobody has.
  static Ref<Object> find_volume(const ObjectView& view, const Object& claim, const json::object& tree) {
    Ref<Object> best;
    std::optional<Quantity> size;
    const std::string type(kVolumes), uid = uid_text(claim.meta.uid);
    const auto& objects = view.objects();
    for (auto at = objects.lower_bound({type, "", ""}); at != objects.end() && std::get<0>(at->first) == type; ++at) {
      const json::object volume = whole_tree(*at->second);
      if (is_deleting(*at->second))
        continue;
      if (is_kept_for(volume, claim.meta.ns.get(), claim.meta.name, uid))
        return at->second;
      if (part(part(volume, "spec"), "claimRef").is_object() || !volume_fits(volume, tree))
        continue;
      const auto own = quantity_in(part(part(volume, "spec"), "capacity"), "storage");
      if (!best || (own && size && *own < *size)) {
        best = at->second;
        size = own;
      }
    }
    return best;
  }

  static json::object claim_reference(const Object& claim) {
    return {{"kind", "PersistentVolumeClaim"},
            {"apiVersion", "v1"},
            {"namespace", claim.meta.ns.get()},
            {"name", claim.meta.name},
            {"uid", uid_text(claim.meta.uid)}};
  }

  static Object bound_claim(const Object& claim, json::object tree, const json::value& volume_spec,
                            const std::string& volume) {
    object_in(tree, "spec")["volumeName"] = volume;
    json::object& notes = object_in(object_in(tree, "metadata"), "annotations");
    notes["pv.kubernetes.io/bind-completed"] = "yes";
    notes["pv.kubernetes.io/bound-by-controller"] = "yes";
    json::object& status = object_in(tree, "status");
    status["phase"] = "Bound";
    status["accessModes"] = part(volume_spec, "accessModes");
    status["capacity"] = part(volume_spec, "capacity");
    if (const std::string attributes = text_in(volume_spec, "volumeAttributesClassName"); !attributes.empty())
      status["currentVolumeAttributesClassName"] = attributes;
    return in_place_of(claim, std::move(tree));
  }

  // Both in one entry.
  static void bind(const Object& claim, const json::object& tree, const Object& volume, Wishes& out) {
    json::object changed = whole_tree(volume);
    object_in(changed, "spec")["claimRef"] = claim_reference(claim);
    object_in(changed, "status")["phase"] = "Bound";
    const json::value spec = part(changed, "spec");
    Reading read{.records = {{key_of(claim), claim.meta.seq}, {key_of(volume), volume.meta.seq}}};
    out.add(PutObject{in_place_of(volume, std::move(changed)), volume.meta.seq}, std::move(read),
            {PutObject{bound_claim(claim, tree, spec, volume.meta.name), claim.meta.seq}});
  }

  static void provision(const ObjectView& view, const Object& claim, const json::object& tree,
                        const json::object& rules, const std::string& node, Instant now, Wishes& out) {
    const json::value& asks = part(tree, "spec");
    const std::string name = provisioned_name(uid_text(claim.meta.uid));
    const json::object term{{"matchExpressions", json::array{json::object{{"key", "kubernetes.io/hostname"},
                                                                          {"operator", "In"},
                                                                          {"values", json::array{as_json(node)}}}}}};
    json::object spec{{"accessModes", part(asks, "accessModes")},
                      {"capacity", part(part(asks, "resources"), "requests")},
                      {"claimRef", claim_reference(claim)},
                      {"local", {{"path", name}}},
                      {"nodeAffinity", {{"required", {{"nodeSelectorTerms", json::array{term}}}}}},
                      {"persistentVolumeReclaimPolicy",
                       text_in(rules, "reclaimPolicy").empty() ? "Delete" : text_in(rules, "reclaimPolicy")},
                      {"storageClassName", storage_class_of(tree)},
                      {"volumeMode", "Filesystem"}};
    if (const std::string attributes = text_in(asks, "volumeAttributesClassName"); !attributes.empty())
      spec["volumeAttributesClassName"] = attributes;
    const json::value kept = spec;
    json::object volume{{"metadata",
                         {{"name", name},
                          {"annotations", {{"pv.kubernetes.io/provisioned-by", kLocalProvisioner}}},
                          {"creationTimestamp", time_text(now, view.wall_offset())}}},
                        {"spec", std::move(spec)},
                        {"status", {{"phase", "Bound"}}}};
    Object made = with_finalizer(object_of(kVolumes, std::move(volume)), kVolumeInUse);
    Reading read{.records = {{key_of(claim), claim.meta.seq}, {key_of(made), 0}}};
    out.add(PutObject{std::move(made), 0}, std::move(read),
            {PutObject{bound_claim(claim, tree, kept, name), claim.meta.seq}});
  }

  static void keep_bound(const ObjectView& view, const Object& claim, const json::object& tree, const std::string& name,
                         Wishes& out) {
    const auto volume = view.find(kVolumes, "", name);
    if (!volume) {
      if (phase_of(tree) == "Bound")
        set_phase(out, claim, "Lost");
      return;
    }
    const json::object volume_tree = whole_tree(*volume);
    const std::string uid = uid_text(claim.meta.uid);
    if (is_kept_for(volume_tree, claim.meta.ns.get(), claim.meta.name, uid)
            ? text_in(part(part(volume_tree, "spec"), "claimRef"), "uid").empty() || phase_of(tree) != "Bound"
            : !part(part(volume_tree, "spec"), "claimRef").is_object())
      return bind(claim, tree, *volume, out);
    grow(claim, tree, *volume, volume_tree, out);
  }

  // A folder has no size of its own: what is asked for is there at once.
  static void grow(const Object& claim, const json::object& tree, const Object& volume, json::object volume_tree,
                   Wishes& out) {
    if (text_in(part(part(volume_tree, "metadata"), "annotations"), "pv.kubernetes.io/provisioned-by") !=
        kLocalProvisioner)
      return;
    const json::value& asked = part(part(part(tree, "spec"), "resources"), "requests");
    const auto wanted = quantity_in(asked, "storage"),
               has = quantity_in(part(part(volume_tree, "spec"), "capacity"), "storage");
    if (!wanted || !has || *wanted <= *has)
      return;
    object_in(object_in(volume_tree, "spec"), "capacity")["storage"] = part(asked, "storage");
    const json::value spec = part(volume_tree, "spec");
    Reading read{.records = {{key_of(claim), claim.meta.seq}, {key_of(volume), volume.meta.seq}}};
    out.add(PutObject{in_place_of(volume, std::move(volume_tree)), volume.meta.seq}, std::move(read),
            {PutObject{bound_claim(claim, tree, spec, volume.meta.name), claim.meta.seq}});
  }

  static void set_phase(Wishes& out, const Object& object, const char* phase) {
    json::object body = body_of(object);
    json::object status = part(body, "status").is_object() ? part(body, "status").get_object() : json::object();
    status["phase"] = phase;
    wish_status(out, object, std::move(body), std::move(status));
  }

  // --- volumes ---

  static void see_to_volume(const ObjectView& view, const Object& volume, Wishes& out) {
    const json::object tree = whole_tree(volume);
    const json::value& reference = part(part(tree, "spec"), "claimRef");
    const auto claim = reference.is_object()
                           ? view.find(kClaims, text_in(reference, "namespace"), text_in(reference, "name"))
                           : nullptr;
    const std::string uid = text_in(reference, "uid");
    const bool held = claim && (uid.empty() || uid == uid_text(claim->meta.uid));
    const bool bound = held && text_in(part(body_of(*claim), "spec"), "volumeName") == volume.meta.name;
    if (is_deleting(volume)) {
      if (!bound && has_finalizer(volume, kVolumeInUse))
        wish_changed(out, without_finalizer(volume, kVolumeInUse), volume.meta.seq);
      return;
    }
    if (!has_finalizer(volume, kVolumeInUse))
      return wish_changed(out, with_finalizer(volume, kVolumeInUse), volume.meta.seq);
    const std::string phase = phase_of(tree);
    if (!reference.is_object() || (uid.empty() && !bound)) {
      if (phase != "Available")
        set_phase(out, volume, "Available");
    } else if (held) {
      if (bound && phase != "Bound")
        set_phase(out, volume, "Bound");
    } else if (text_in(part(part(tree, "metadata"), "annotations"), "pv.kubernetes.io/provisioned-by") ==
                   kLocalProvisioner &&
               text_in(part(tree, "spec"), "persistentVolumeReclaimPolicy") == "Delete") {
      out.add(RemoveObject{volume.type, "", volume.meta.name, volume.meta.seq});
    } else if (phase != "Released") {
      set_phase(out, volume, "Released");
    }
  }
};

}  // namespace

std::shared_ptr<const Reconciler> claim_controller() { return std::make_shared<ClaimController>(); }

}  // namespace lockstep::kube
