#include "frontends/kube/server/draft.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "frontends/kube/controllers/pod_defaults.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/rules.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/kinds/versions.h"
#include "frontends/kube/kinds/warnings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/admission.h"
#include "frontends/kube/server/body.h"
#include "frontends/kube/server/conversion.h"
#include "frontends/kube/server/custom_kinds.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kCertificateRequests = "certificatesigningrequests.certificates.k8s.io";
constexpr std::string_view kStatusPart = "status";

Qualified qualified_kind(const Request& request) { return {request.kind->group, request.kind->kind}; }

Status invalid_object(const Request& request, const json::object& tree, const FieldErrors& errors) {
  std::vector<Cause> causes;
  for (const FieldError& error : errors)
    causes.push_back({std::string(reason_word(error.type)), error.body(), error.path});
  const json::value* metadata = tree.if_contains("metadata");
  return Status::invalid(
      is_scale(request) && !request.kind->custom ? Qualified{"autoscaling", "Scale"} : qualified_kind(request),
      metadata && metadata->is_object() ? text_in(metadata->get_object(), "name") : "", causes);
}

// Apart from its metadata and its status.
bool asks_the_same(const json::object& a, const json::object& b) {
  const auto counts = [](std::string_view name) {
    return name != "metadata" && name != "status" && name != "kind" && name != "apiVersion";
  };
  const auto has_all_of = [&](const json::object& one, const json::object& other) {
    return std::ranges::all_of(other, [&](const json::key_value_pair& member) {
      const json::value* own = one.if_contains(member.key());
      return !counts(member.key()) || (own && same_json(*own, member.value()));
    });
  };
  return has_all_of(a, b) && std::ranges::all_of(a, [&](const json::key_value_pair& member) {
           return !counts(member.key()) || b.contains(member.key());
         });
}

// Whose changes are counted. Of built-in kinds those that the real server counts.
bool has_generation(const Kind& kind) {
  static const std::set<std::string_view> counted{"pods",
                                                  "replicationcontrollers",
                                                  "podtemplates",
                                                  "daemonsets.apps",
                                                  "deployments.apps",
                                                  "replicasets.apps",
                                                  "statefulsets.apps",
                                                  "cronjobs.batch",
                                                  "jobs.batch",
                                                  "endpointslices.discovery.k8s.io",
                                                  "ingresses.networking.k8s.io",
                                                  "ingressclasses.networking.k8s.io",
                                                  "networkpolicies.networking.k8s.io",
                                                  "poddisruptionbudgets.policy",
                                                  "priorityclasses.scheduling.k8s.io",
                                                  "customresourcedefinitions.apiextensions.k8s.io",
                                                  "deviceclasses.resource.k8s.io",
                                                  "resourceslices.resource.k8s.io",
                                                  "flowschemas.flowcontrol.apiserver.k8s.io",
                                                  "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
                                                  "validatingadmissionpolicies.admissionregistration.k8s.io",
                                                  "validatingadmissionpolicybindings.admissionregistration.k8s.io",
                                                  "validatingwebhookconfigurations.admissionregistration.k8s.io",
                                                  "mutatingwebhookconfigurations.admissionregistration.k8s.io"};
  return kind.custom || !kind.schema || counted.contains(kind.type);
}

// A Deployment's controller hands its annotations on, so these count, too.
bool is_another_wish(const Kind& kind, const json::object& now, const json::object& before) {
  if (!asks_the_same(now, before))
    return true;
  return kind.type == "deployments.apps" &&
         !same_json(part(part(now, "metadata"), "annotations"), part(part(before, "metadata"), "annotations"));
}

// A certificate request says who made it, whatever its maker says.
void note_who_asks(const KubeUser& user, json::object& tree) {
  json::value& said = tree["spec"];
  json::object& spec = said.is_object() ? said.get_object() : said.emplace_object();
  for (const char* own : {"username", "uid", "groups", "extra"}) spec.erase(own);
  spec["username"] = user.name;
  if (!user.uid.empty())
    spec["uid"] = user.uid;
  if (!user.groups.empty())
    spec["groups"] = json::array(user.groups.begin(), user.groups.end());
  json::object extra;
  for (const auto& [key, values] : user.extra) extra[key] = json::array(values.begin(), values.end());
  if (!extra.empty())
    spec["extra"] = std::move(extra);
}

void note_manager(const Request& request, json::object& tree, const json::object* live) {
  if (!request.kind->schema)
    return;
  const FieldSet ignored = ignored_by(request);
  json::value changed = std::move(tree);
  changed.get_object()["kind"] = request.kind->kind;
  changed.get_object()["apiVersion"] = request.api_version;
  track_update(live ? json::value(*live) : json::value(), changed, *request.kind->schema, manager_of(request, ignored));
  tree = std::move(changed.get_object());
}

// Whether both would be stored alike.
bool stored_alike(const Object& a, const Object& b) {
  static const MetaExtra none;
  MetaExtra first = a.meta.extra ? *a.meta.extra : none, second = b.meta.extra ? *b.meta.extra : none;
  second.deleting = first.deleting;  // it is the record's own
  return a.body == b.body && first == second;
}

// What a client cannot change about an object that is there.
void carry_over(json::object& tree, const json::object& old) {
  json::object& metadata = metadata_of(tree);
  const json::object& was = old.at("metadata").as_object();
  for (const char* own : {"uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
                          "namespace", "generateName"}) {
    if (const json::value* value = was.if_contains(own))
      metadata[own] = *value;
    else
      metadata.erase(own);
  }
}

const json::object* old_tree(const Draft& draft) { return draft.before ? &draft.old : nullptr; }

}  // namespace

// --- parts of trees ---

json::object& metadata_of(json::object& tree) {
  json::value& metadata = tree["metadata"];
  return metadata.is_object() ? metadata.get_object() : metadata.emplace_object();
}

bool is_status(std::string_view subresource) { return subresource == kStatusPart || subresource == "approval"; }

bool is_apply(const Request& request) {
  return header_of(request.http(), "content-type").starts_with("application/apply-patch");
}

Status bad_patch(const std::string& why) {
  return Status::invalid({"", ""}, "", {{"FieldValueInvalid", "Invalid value: " + why, "patch"}});
}

// Who changes it: ?fieldManager=, or what the client calls itself.
FieldManager manager_of(const Request& request, const FieldSet& ignored) {
  FieldManager out;
  out.name = query_of(request.http(), "fieldManager");
  if (out.name.empty()) {
    const std::string agent = header_of(request.http(), "user-agent");
    out.name = agent.substr(0, agent.find('/')).substr(0, kManagerNameMax);
  }
  out.api_version = request.api_version;
  out.subresource = request.target.subresource;
  out.now = request.now;
  out.ignored = &ignored;
  return out;
}

FieldSet ignored_by(const Request& request) {
  FieldSet out;
  if (request.target.subresource.empty() && request.kind->serves(kStatusPart))
    out.insert({field_element(kStatusPart)});
  if (is_status(request.target.subresource))
    out.insert({field_element("spec")});
  return out;
}

// --- at the cluster ---

Answered<Reading> room_for(const Request& request, std::string_view name) {
  Reading out;
  const auto read = request.visit->read();
  if (request.kind->custom) {
    const ObjectKey key{std::string(kDefinitions), "", request.kind->type};
    const auto definition = read->tables.objects.find(key);
    if (definition == read->tables.objects.end())
      return Status::no_such_path();
    if (definition->second->meta.extra && definition->second->meta.extra->deleting)
      return Status::method_not_allowed(request.resource(), "create");
    out.records.push_back({key, definition->second->meta.seq});
  }
  if (!request.kind->namespaced)
    return out;
  const ObjectKey key{std::string(kNamespaces), "", request.target.ns};
  const auto ns = read->tables.objects.find(key);
  if (ns == read->tables.objects.end())
    return Status::not_found({"", std::string(kNamespaces)}, request.target.ns);
  if (ns->second->meta.extra && ns->second->meta.extra->deleting) {
    Status status = Status::forbidden(
        request.resource(), name,
        format("unable to create new content in namespace {} because it is being terminated", request.target.ns));
    status.causes.push_back(
        {"NamespaceTerminating", format("namespace {} is being terminated", request.target.ns), "metadata.namespace"});
    return status;
  }
  out.records.push_back({key, ns->second->meta.seq});
  return out;
}

Draft begin_new(const Request& request, json::object tree, const std::string& name_end) {
  Draft draft{.tree = std::move(tree)};
  json::object& metadata = metadata_of(draft.tree);
  if (text_in(metadata, "name").empty() && !text_in(metadata, "generateName").empty())
    metadata["name"] = text_in(metadata, "generateName") + name_end;
  for (const char* own : {"uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}) metadata.erase(own);
  const auto read = request.visit->read();
  metadata["creationTimestamp"] = time_text(read->now, read->wall_offset);
  if (has_generation(*request.kind))
    metadata["generation"] = 1;
  else
    metadata.erase("generation");
  if (request.kind->serves(kStatusPart))
    draft.tree.erase(kStatusPart);
  if (request.kind->type == kCertificateRequests)
    note_who_asks(request.user, draft.tree);
  return draft;
}

std::optional<Status> complete_draft(const Request& request, Draft& draft) {
  if (draft.before)
    return std::nullopt;
  const bool is_pod = request.kind->type == kPods;
  if (is_pod)
    if (auto refused = default_pod(request.visit->read()->tables, draft.tree))
      return refused;
  if (auto refused = complete_new(request, draft.tree))
    return refused;
  if (is_pod)  // its class follows from the amounts of all its containers
    rules_of(kPods).prepare_create(draft.tree);
  return std::nullopt;
}

// --- at the object alone ---

Answered<Draft> begin_update(const Request& request, const Ref<Object>& before, json::object old, json::object tree) {
  Draft draft{.tree = std::move(tree), .before = before, .old = std::move(old)};
  json::object& metadata = metadata_of(draft.tree);
  if (text_in(metadata, "name") != request.target.name)
    return Status::bad_request(format("the name of the object ({}) does not match the name on the URL ({})",
                                      text_in(metadata, "name"), request.target.name));
  const std::string uid = text_in(metadata, "uid"), version = text_in(metadata, "resourceVersion");
  if (request.target.verb == "patch" && !is_apply(request) && !uid.empty() && uid != uid_text(before->meta.uid))
    return invalid_object(request, draft.tree, {field_invalid("metadata.uid", json::value(uid), "field is immutable")});
  if (!uid.empty() && uid != uid_text(before->meta.uid))
    return Status::conflict(request.resource(), request.target.name,
                            format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid,
                                   uid_text(before->meta.uid)));
  if (!version.empty() && version != "0" && version != std::to_string(before->meta.seq))
    return Status::object_modified(request.resource(), request.target.name);
  carry_over(draft.tree, draft.old);
  if (version.empty() && !request.kind->custom)  // those must say which version they replace
    metadata["resourceVersion"] = std::to_string(before->meta.seq);
  const std::string& sub = request.target.subresource;
  const json::value* old_status = draft.old.if_contains(kStatusPart);
  if (is_status(sub)) {
    json::object whole = draft.old;
    if (request.kind->custom) {  // nothing but the status
      for (const char* told : {"managedFields", "resourceVersion"})
        if (const json::value* value = metadata_of(draft.tree).if_contains(told))
          metadata_of(whole)[told] = *value;
    } else {
      whole["metadata"] = draft.tree["metadata"];
      if (request.kind->type == "deployments.apps") {
        metadata_of(whole).erase("labels");
        if (const json::value* labels = metadata_of(draft.old).if_contains("labels"))
          metadata_of(whole)["labels"] = *labels;
      }
    }
    if (const json::value* status = draft.tree.if_contains(kStatusPart))
      whole[kStatusPart] = *status;
    else
      whole.erase(kStatusPart);
    draft.tree = std::move(whole);
  } else if (request.kind->serves(kStatusPart)) {
    if (old_status)
      draft.tree[kStatusPart] = *old_status;
    else
      draft.tree.erase(kStatusPart);
  }
  return draft;
}

std::optional<Status> settle_draft(Request& request, Draft& draft) {
  const KindRules& rules = rules_of(request.kind->type);
  const bool patches = request.target.verb == "patch" && !is_apply(request);
  if (auto refused = settle_object(request, draft.tree,
                                   draft.is_sent ? std::string_view(request.http().body) : std::string_view()))
    return draft.before && patches ? bad_patch(refused->message) : std::move(*refused);
  if (draft.before)
    rules.prepare_update(draft.tree, draft.old, request.target.subresource);
  else
    rules.prepare_create(draft.tree);
  if (draft.managers == Draft::Managers::kTracked)  // what the server adds from here on is nobody's
    note_manager(request, draft.tree, old_tree(draft));
  return std::nullopt;
}

std::optional<Status> settle_changed(const Request& request, Draft& draft, json::object changed) {
  json::object& metadata = metadata_of(changed);
  const json::object& was = metadata_of(draft.tree);
  for (const char* fixed : {"name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"}) {
    if (const json::value* value = was.if_contains(fixed))
      metadata[fixed] = *value;
    else
      metadata.erase(fixed);
  }
  draft.tree = std::move(changed);
  return settle_made(request, draft.tree);
}

std::optional<Status> validate_draft(Request& request, Draft& draft) {
  const KindRules& rules = rules_of(request.kind->type);
  const json::object* old = old_tree(draft);
  FieldErrors errors;
  validate_object(request, draft.tree, old, errors);
  if (old)
    rules.validate_update(draft.tree, *old, request.target.subresource, errors);
  else
    rules.validate(draft.tree, nullptr, errors);
  if (!errors.empty())
    return invalid_object(request, draft.tree, errors);
  if (!old || request.target.subresource.empty())
    add_warnings(request, warnings_of(request.kind->type, draft.tree, old));
  if (old && has_generation(*request.kind) && is_another_wish(*request.kind, draft.tree, *old)) {
    json::value& generation = metadata_of(draft.tree)["generation"];
    generation = (generation.is_int64()    ? generation.get_int64()
                  : generation.is_uint64() ? static_cast<std::int64_t>(generation.get_uint64())
                                           : 0) +
                 1;
  }
  return std::nullopt;
}

Object object_to_store(const Request& request, const Draft& draft, const PodRecords* records) {
  json::object stored = draft.stored ? *draft.stored : draft.tree;
  if (request.kind->custom && request.kind->custom->notes_version)
    stored[kVersionNote] = request.kind->custom->definition->storage().name;
  to_stored(request.kind->type, request.api_version, stored);
  if (records)
    note_written_status(stored, draft.old, *records);
  Object object = object_of(request.kind->type, std::move(stored));
  if (draft.before)
    object.shows = draft.before->shows;
  return object;
}

bool changes_nothing(Draft& draft, const Object& object) {
  if (!draft.before)
    return false;
  if (stored_alike(object, *draft.before))
    return true;
  json::value old(std::move(draft.old)), now(std::move(draft.tree));
  const bool same = only_times_differ(old, now);
  draft.old = std::move(old.get_object());
  draft.tree = std::move(now.get_object());
  return same;
}

}  // namespace lockstep::kube
