#include "frontends/kube/server/write.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <set>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/controllers/pod_defaults.h"
#include "frontends/kube/kinds/node_change.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/rules.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/kinds/versions.h"
#include "frontends/kube/kinds/warnings.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/json_patch.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/managed_fields.h"
#include "frontends/kube/machinery/merge_patch.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/strategic_patch.h"
#include "frontends/kube/machinery/typed.h"
#include "frontends/kube/server/address_claims.h"
#include "frontends/kube/server/body.h"
#include "frontends/kube/server/conversion.h"
#include "frontends/kube/server/custom_kinds.h"
#include "frontends/kube/server/escalation.h"
#include "frontends/kube/server/pods.h"
#include "frontends/kube/server/quota_admission.h"
#include "frontends/kube/server/selection.h"
#include "frontends/kube/server/shown.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kObjectBytesMax = 1'500'000;  // as a server on etcd has it
constexpr std::size_t kDeletionMost = 4;            // commands that delete one object
constexpr int kTries = 8;                           // of a change that asks for no version, when another one came first
constexpr std::string_view kCertificateRequests = "certificatesigningrequests.certificates.k8s.io";
constexpr std::string_view kStatus = "status";
constexpr const char* kLastingNamespaces[] = {"default", "kube-system", "kube-public", "kube-node-lease"};

// --- what all changes have ---

json::object& metadata_of(json::object& tree) {
  json::value& metadata = tree["metadata"];
  return metadata.is_object() ? metadata.get_object() : metadata.emplace_object();
}

std::string text_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value ? std::string(text_of(*value)) : std::string();
}

std::string now_text(const Request& request) {
  const auto read = request.visit->read();
  return time_text(read->now, read->wall_offset);
}

Qualified qualified_kind(const Request& request) { return {request.kind->group, request.kind->kind}; }

Status invalid_object(const Request& request, const json::object& tree, const FieldErrors& errors) {
  std::vector<Cause> causes;
  for (const FieldError& error : errors)
    causes.push_back({std::string(reason_word(error.type)), error.body(), error.path});
  const json::value* metadata = tree.if_contains("metadata");
  return Status::invalid(
      is_scale(request) && !request.kind->custom ? Qualified{"autoscaling", "Scale"} : qualified_kind(request),
      metadata && metadata->is_object() ? text_at(metadata->get_object(), "name") : "", causes);
}

// Apart from its metadata and its status.
bool asks_the_same(const json::object& a, const json::object& b) {
  const auto wanted = [](const json::object& tree) {
    json::object out;
    for (const auto& [name, value] : tree)
      if (name != "metadata" && name != "status" && name != "kind" && name != "apiVersion")
        out[name] = value;
    return out;
  };
  return same_json(wanted(a), wanted(b));
}

bool is_apply(const Request& request) {
  return header_of(request.http(), "content-type").starts_with("application/apply-patch");
}

// A patch that makes of the object what cannot be one.
Status bad_patch(const std::string& why) {
  return Status::invalid({"", ""}, "", {{"FieldValueInvalid", "Invalid value: " + why, "patch"}});
}

// Where the status is written and nothing else. A certificate's approval is part of it.
bool is_status(std::string_view subresource) { return subresource == kStatus || subresource == "approval"; }

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

enum class Managers : bool { kTracked, kKnown };  // kKnown: the tree brings them, as an apply has made them

// What the object is to be, with what it was.
struct Draft {
  json::object tree;
  Ref<Object> before;                       // null: it is new
  json::object old;                         // its tree
  std::string refusal;                      // of a pod: why what it asks of its job was refused a moment ago
  std::optional<json::object> stored = {};  // the tree in the version that is stored, where a webhook made that
};

using Again = std::function<void()>;

// What the API's rules allow of pods is more than their caller could do with jobs.
void commit_for(const Request& request, std::vector<CommandBody> bodies, Reading read,
                std::function<void(Result<Answer>)> then) {
  if (request.kind->type == kPods || request.kind->type == kNodes)
    return request.visit->commit_judged(std::move(bodies), std::move(read), std::move(then));
  request.visit->commit(std::move(bodies), std::move(read), std::move(then));
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
  const auto read = request.visit->read();
  out.now = WallTime{(read->now + read->wall_offset).us};
  out.ignored = &ignored;
  return out;
}

// What cannot be changed where the request goes: the status from outside of /status, the rest from there.
FieldSet ignored_by(const Request& request) {
  FieldSet out;
  if (request.target.subresource.empty() && request.kind->serves(kStatus))
    out.insert({field_element(kStatus)});
  if (is_status(request.target.subresource))
    out.insert({field_element("spec")});
  return out;
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

// Whether both would be stored alike.
bool stored_alike(const Object& a, const Object& b) {
  static const MetaExtra none;
  MetaExtra first = a.meta.extra ? *a.meta.extra : none, second = b.meta.extra ? *b.meta.extra : none;
  second.deleting = first.deleting;  // it is the record's own
  return a.body == b.body && first == second;
}

// A job that runs otherwise than one task on one node, or whose node is away, stays as large as it is.
bool asks_in_vain(const Error& why) { return why.code == Errc::kUnsupported || why.code == Errc::kUnavailable; }
ConversionTools conversion_of(const WriteTools& tools) { return {tools.call, tools.random_hex}; }

// Whether the object can be shown in the request's version. Else a webhook is asked first, and `again` called then.
bool in_its_version(const Asked& request, const WriteTools& tools, const Ref<Object>& object,
                    std::function<void()> again) {
  if (!object || !is_to_be_converted(*request, *object))
    return true;
  convert_for(request, conversion_of(tools), {object},
              [request, again = std::move(again)](const std::optional<Status>& failed) {
                if (failed)
                  return answer_status(*request, *failed);
                again();
              });
  return false;
}

// Commits and answers. again: another try after a conflict that is not the client's; empty: there is none.
void put_admitted(const Asked& request, const WriteTools& tools, Draft draft, Reading read, Again again) {
  if (auto refused = check_escalation(*request, draft.tree, *tools.roles))
    return answer_status(*request, *refused);
  // Whether there is one of that name already is nobody's business whom admission refuses.
  if (!draft.before && request->target.verb == "create")
    if (const std::string name = text_at(metadata_of(draft.tree), "name");
        request->visit->read()->tables.objects.contains(
            {request->kind->type, request->kind->namespaced ? request->target.ns : "", name}))
      return answer_status(*request, Status::already_exists(request->resource(), name));
  if (!draft.before && !text_at(metadata_of(draft.tree), "resourceVersion").empty())
    return answer_status(*request, Status::bad_request("resourceVersion should not be set on objects to be created"));
  if (auto refused = check_address_claims(*request, draft.tree, draft.before ? &draft.old : nullptr, *tools.roles,
                                          tools.own_addresses ? tools.own_addresses() : std::vector<std::string>()))
    return answer_status(*request, *refused);
  std::vector<CommandBody> more;
  if (request->kind->type == kServices) {
    auto given = give_addresses(*request, draft.tree, draft.before ? &draft.old : nullptr, *tools.services,
                                std::hash<std::string>()(tools.random_hex(16)));
    if (!given.ok())
      return answer_status(*request, given.error());
    more = std::move(given->commands);
    read.records.insert(read.records.end(), given->read.records.begin(), given->read.records.end());
  }
  auto counted = count_in_quotas(*request, draft.tree, draft.before ? &draft.old : nullptr);
  if (!counted.ok())
    return answer_status(*request, counted.error());
  if (is_converted_by_webhook(*request->kind)) {
    const std::string& storage = request->kind->custom->definition->storage().name;
    if (!draft.stored && storage != request->kind->version)
      return convert_to_stored(request, conversion_of(tools), draft.tree,
                               [request, tools, draft, read = std::move(read),
                                again = std::move(again)](Answered<json::object> made) mutable {
                                 if (!made.ok())
                                   return answer_status(*request, made.error());
                                 draft.stored = std::move(*made);
                                 put_admitted(request, tools, std::move(draft), std::move(read), std::move(again));
                               });
    request->written = draft.tree;
  }
  json::object stored = draft.stored ? *draft.stored : draft.tree;
  if (request->kind->custom && request->kind->custom->notes_version)
    stored[kVersionNote] = request->kind->custom->definition->storage().name;
  to_stored(request->kind->type, request->api_version, stored);
  if (request->kind->type == kPods && draft.before && is_status(request->target.subresource))
    note_written_status(stored, draft.old, records_of_pod(request->visit->read()->tables, *draft.before));
  Object object = object_of(request->kind->type, std::move(stored));
  const Ref<Object> before = draft.before;
  if (before)
    object.shows = before->shows;
  if (object.body.size() > kObjectBytesMax)
    return answer_status(*request, Status::too_large(kObjectBytesMax));
  // What the record says is not what was stored: it may change where the stored object does not.
  std::optional<UpdateNode> node_work;
  if (object.type == kNodes)
    if (const Node* node = request->visit->read()->tables.node(object.meta.name))
      node_work = node_change(*node, before ? &draft.old : nullptr, draft.tree, request->user.name);
  if (before && !node_work &&
      (stored_alike(object, *before) || only_times_differ(json::value(draft.old), json::value(draft.tree))))
    return answer_shown(*request, *before, 200);
  if (request->dry_run) {
    if (before) {
      object.meta.uid = before->meta.uid;
      object.meta.seq = before->meta.seq;
    }
    return answer_shown(*request, object, before ? 200 : 201);
  }
  std::vector<CommandBody> bodies;
  std::function<void(const Error&)> if_refused;  // a new pod that cannot have a job waits without one
  const auto once_more = [&] {
    return [request, tools, draft = std::make_shared<Draft>(std::move(draft)), read, again](const Error& why) {
      draft->refusal = why.message;
      put_admitted(request, tools, std::move(*draft), read, again);
    };
  };
  const bool makes_pod = object.type == kPods && !before;
  if (makes_pod) {
    auto made = new_pod(*request, draft.tree, draft.refusal);
    if (!made.ok())
      return answer_status(*request, made.error());
    bodies.push_back(std::move(*made));
    if (draft.refusal.empty())
      if_refused = once_more();
  } else {
    bodies.emplace_back(PutObject{object, before && !mutant(Mutant::kUpdateLost) ? before->meta.seq : 0});
  }
  if (object.type == kPods && before) {
    // What there is no room for is asked for again by the pods' controller.
    const Sizes sizes = draft.refusal.empty() ? Sizes::kChange : Sizes::kStay;
    for (CommandBody& body : changes_of_job(request->visit->read()->tables, *before, draft.tree, draft.old, sizes)) {
      bodies.push_back(std::move(body));
    }
    if (sizes == Sizes::kChange && bodies.size() > 1)
      if_refused = once_more();
  }
  if (node_work)
    more.emplace_back(std::move(*node_work));
  for (auto* others : {&more, &*counted})
    for (CommandBody& body : *others) bodies.push_back(std::move(body));
  commit_for(*request, std::move(bodies), std::move(read),
             [request, tools, before, object, if_refused, again = std::move(again)](Result<Answer> done) mutable {
               if (!done.ok() && done.error().code == Errc::kConflict && again)
                 return again();
               if (!done.ok() && if_refused && (waits_for(done.error()) || (before && asks_in_vain(done.error()))))
                 return if_refused(done.error());
               if (!done.ok())
                 return answer_status(*request, status_of(done.error(), request->resource(), object.meta.name));
               const auto reading = request->visit->read();
               const auto now = reading->tables.objects.find({object.type, object.meta.ns, object.meta.name});
               if (before && object.type == kPods && now != reading->tables.objects.end())
                 tell_node(*request, tools.streams, *now->second);
               if (now != reading->tables.objects.end())
                 return answer_shown(*request, *now->second, before ? 200 : 201);
               if (before)  // it has gone with its last finalizer
                 object.meta.uid = before->meta.uid;
               object.meta.seq = done->seq;
               answer_shown(*request, object, before ? 200 : 201);
             });
}

// --- create ---

Answered<json::object> body_for(const Request& request, const std::string& body_text) {
  json::object tree = TRY(read_body(request, body_text));
  json::object& metadata = metadata_of(tree);
  const std::string ns = text_at(metadata, "namespace");
  if (request.kind->namespaced && !ns.empty() && ns != request.target.ns)
    return Status::bad_request("the namespace of the provided object does not match the namespace sent on the request");
  if (request.kind->namespaced)
    metadata["namespace"] = request.target.ns;
  else
    metadata.erase("namespace");
  return tree;
}

// What a new object rests on: that its namespace is not being deleted, nor its kind's definition.
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

std::string name_end(const WriteTools& tools) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";  // no words, and nothing that looks alike
  std::string out;
  for (const char c : tools.random_hex(10).substr(0, 10))
    out += kLetters[static_cast<unsigned char>(c) * 31 % kLetters.size()];
  return out.substr(0, 5);
}

Answered<Draft> new_draft(Request& request, const WriteTools& tools, json::object tree, std::string_view text,
                          Managers managers) {
  Draft draft{std::move(tree), nullptr, {}};
  json::object& metadata = metadata_of(draft.tree);
  if (text_at(metadata, "name").empty() && !text_at(metadata, "generateName").empty())
    metadata["name"] = text_at(metadata, "generateName") + name_end(tools);
  for (const char* own : {"uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}) metadata.erase(own);
  metadata["creationTimestamp"] = now_text(request);
  if (has_generation(*request.kind))
    metadata["generation"] = 1;
  else
    metadata.erase("generation");
  if (request.kind->serves(kStatus))
    draft.tree.erase(kStatus);
  if (request.kind->type == kCertificateRequests)
    note_who_asks(request.user, draft.tree);
  const KindRules& rules = rules_of(request.kind->type);
  if (auto refused = settle_object(request, draft.tree, text))
    return std::move(*refused);
  rules.prepare_create(draft.tree);
  if (managers == Managers::kTracked)  // what the server adds from here on is nobody's
    note_manager(request, draft.tree, nullptr);
  if (request.kind->type == kPods) {
    if (auto refused = default_pod(request.visit->read()->tables, draft.tree))
      return std::move(*refused);
    rules.prepare_create(draft.tree);  // its class follows from amounts that may have come
  }
  if (auto refused = complete_new(request, draft.tree))
    return std::move(*refused);
  FieldErrors errors;
  validate_object(request, draft.tree, nullptr, errors);
  rules.validate(draft.tree, nullptr, errors);
  if (!errors.empty())
    return invalid_object(request, draft.tree, errors);
  add_warnings(request, warnings_of(request.kind->type, draft.tree, nullptr));
  return draft;
}

// What webhooks made of it is read as if it had been sent so: but it is still the object that the request names.
std::optional<Status> settle_changed(Request& request, Draft& draft, json::object changed) {
  json::object& metadata = metadata_of(changed);
  const json::object& was = metadata_of(draft.tree);
  for (const char* fixed : {"name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"}) {
    if (const json::value* value = was.if_contains(fixed))
      metadata[fixed] = *value;
    else
      metadata.erase(fixed);
  }
  draft.tree = std::move(changed);
  std::vector<std::string> warnings = std::move(request.warnings);
  if (auto refused = settle_object(request, draft.tree, {}))
    return refused;
  request.warnings = std::move(warnings);
  if (!draft.before && request.kind->type == kPods)
    if (auto refused = default_pod(request.visit->read()->tables, draft.tree))
      return refused;
  if (!draft.before)
    if (auto refused = complete_new(request, draft.tree))
      return refused;
  if (!draft.before && request.kind->type == kPods)
    rules_of(kPods).prepare_create(draft.tree);  // its class follows from all its containers
  FieldErrors errors;
  const json::object* old = draft.before ? &draft.old : nullptr;
  validate_object(request, draft.tree, old, errors);
  if (old)
    rules_of(request.kind->type).validate_update(draft.tree, *old, request.target.subresource, errors);
  else
    rules_of(request.kind->type).validate(draft.tree, nullptr, errors);
  if (!errors.empty())
    return invalid_object(request, draft.tree, errors);
  return std::nullopt;
}

std::optional<json::object> old_of(const Draft& draft) {
  return draft.before ? std::optional(draft.old) : std::nullopt;
}

// Admission: webhooks change it, rules and policies judge it, webhooks judge it; then it is committed.
void put(const Asked& request, const WriteTools& tools, Draft draft, Reading read, Again again) {
  const auto judged = [request, tools](const Draft& one) {
    return judge(*request, *tools.kinds, *tools.policies, &one.tree, one.before ? &one.old : nullptr);
  };
  if (!has_webhooks(request->visit->read()->tables)) {
    if (auto refused = judged(draft))
      return answer_status(*request, *refused);
    return put_admitted(request, tools, std::move(draft), std::move(read), std::move(again));
  }
  const std::string uid = tools.random_hex(16);
  const auto work = std::make_shared<Draft>(std::move(draft));
  ask_mutating(request, tools.call, uid, work->tree, old_of(*work),
               [request, tools, uid, work, judged, read = std::move(read),
                again = std::move(again)](Answered<Admitted> admitted) {
                 if (!admitted.ok())
                   return answer_status(*request, admitted.error());
                 if (admitted->changed)
                   if (auto refused = settle_changed(*request, *work, std::move(admitted->tree)))
                     return answer_status(*request, *refused);
                 if (auto refused = judged(*work))
                   return answer_status(*request, *refused);
                 ask_validating(request, tools.call, uid, work->tree, old_of(*work),
                                [request, tools, work, read, again](std::optional<Status> refused) {
                                  if (refused)
                                    return answer_status(*request, *refused);
                                  put_admitted(request, tools, std::move(*work), read, again);
                                });
               });
}

void try_create(const Asked& request, const WriteTools& tools, int tries) {
  auto tree = body_for(*request, request->http().body);
  if (!tree.ok())
    return answer_status(*request, tree.error());
  // A namespace that ends takes nothing, whatever else is wrong with it.
  if (auto room = room_for(*request, text_at(metadata_of(*tree), "name")); !room.ok())
    return answer_status(*request, room.error());
  auto draft = new_draft(*request, tools, std::move(*tree), request->http().body, Managers::kTracked);
  if (!draft.ok())
    return answer_status(*request, draft.error());
  const std::string name = text_at(metadata_of(draft->tree), "name");
  auto reading = room_for(*request, name);
  if (!reading.ok())
    return answer_status(*request, reading.error());
  const ObjectKey key{request->kind->type, request->kind->namespaced ? request->target.ns : "", name};
  reading->records.push_back({key, 0});
  const bool generated = !text_at(metadata_of(draft->tree), "generateName").empty();
  if (generated && tries > 0 && request->visit->read()->tables.objects.contains(key))
    return try_create(request, tools, tries - 1);
  put(request, tools, std::move(*draft), std::move(*reading),
      tries > 0 ? Again([request, tools, tries] { try_create(request, tools, tries - 1); }) : Again());
}

}  // namespace

void admit_connection(const Asked& request, const WriteTools& tools, std::function<void()> then) {
  json::object options = connection_options(*request);
  if (auto refused = judge(*request, *tools.kinds, *tools.policies, &options, nullptr))
    return answer_status(*request, *refused);
  if (!has_webhooks(request->visit->read()->tables))
    return then();
  ask_validating(request, tools.call, tools.random_hex(16), std::move(options), std::nullopt,
                 [request, then = std::move(then)](std::optional<Status> refused) {
                   if (refused)
                     return answer_status(*request, *refused);
                   then();
                 });
}

void create_object(const Asked& request, const WriteTools& tools) { try_create(request, tools, kTries); }

// --- update ---

namespace {

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

// text: what was sent, where that is JSON.
Answered<Draft> draft_of_update(Request& request, const Ref<Object>& before, json::object tree, std::string_view text,
                                Managers managers = Managers::kTracked) {
  Draft draft{std::move(tree), before, shown_tree(request, *before)};
  json::object& metadata = metadata_of(draft.tree);
  if (text_at(metadata, "name") != request.target.name)
    return Status::bad_request(format("the name of the object ({}) does not match the name on the URL ({})",
                                      text_at(metadata, "name"), request.target.name));
  const std::string uid = text_at(metadata, "uid"), version = text_at(metadata, "resourceVersion");
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
  const json::value* old_status = draft.old.if_contains(kStatus);
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
    if (const json::value* status = draft.tree.if_contains(kStatus))
      whole[kStatus] = *status;
    else
      whole.erase(kStatus);
    draft.tree = std::move(whole);
  } else if (request.kind->serves(kStatus)) {
    if (old_status)
      draft.tree[kStatus] = *old_status;
    else
      draft.tree.erase(kStatus);
  }
  const KindRules& rules = rules_of(request.kind->type);
  if (auto refused = settle_object(request, draft.tree, text))
    return request.target.verb == "patch" && !is_apply(request) ? bad_patch(refused->message) : std::move(*refused);
  rules.prepare_update(draft.tree, draft.old, sub);
  FieldErrors errors;
  validate_object(request, draft.tree, &draft.old, errors);
  rules.validate_update(draft.tree, draft.old, sub, errors);
  if (!errors.empty())
    return invalid_object(request, draft.tree, errors);
  if (sub.empty())
    add_warnings(request, warnings_of(request.kind->type, draft.tree, &draft.old));
  if (managers == Managers::kTracked)
    note_manager(request, draft.tree, &draft.old);
  if (has_generation(*request.kind) && is_another_wish(*request.kind, draft.tree, draft.old)) {
    json::value& generation = metadata_of(draft.tree)["generation"];
    generation = (generation.is_int64()    ? generation.get_int64()
                  : generation.is_uint64() ? static_cast<std::int64_t>(generation.get_uint64())
                                           : 0) +
                 1;
  }
  return draft;
}

bool names_version(const json::object& tree) {
  const json::value* metadata = tree.if_contains("metadata");
  const std::string version =
      metadata && metadata->is_object() ? text_at(metadata->get_object(), "resourceVersion") : "";
  return !version.empty() && version != "0";
}

// The object with the number that a Scale says, and with its version as a condition where it names one.
json::object scaled(const Request& request, const Object& before, json::object& scale) {
  json::object tree = shown_tree(request, before);
  put_scale(tree, scale, scale_paths(request));
  const std::string version = text_at(metadata_of(scale), "resourceVersion");
  metadata_of(tree)["resourceVersion"] = version.empty() ? std::to_string(before.meta.seq) : version;
  return tree;
}

void try_update(const Asked& request, const WriteTools& tools, json::object tree, int tries) {
  const Ref<Object> before = find_object(*request);
  if (!before)
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  if (!in_its_version(request, tools, before, [=] { try_update(request, tools, tree, tries); }))
    return;
  auto draft = draft_of_update(*request, before, is_scale(*request) ? scaled(*request, *before, tree) : tree,
                               request->http().body);
  if (!draft.ok())
    return answer_status(*request, draft.error());
  const bool may_try = tries > 0 && !names_version(tree);
  put(request, tools, std::move(*draft), {},
      may_try ? Again([request, tools, tree, tries] { try_update(request, tools, tree, tries - 1); }) : Again());
}

}  // namespace

void update_object(const Asked& request, const WriteTools& tools) {
  const auto tree = body_for(*request, request->http().body);
  if (!tree.ok())
    return answer_status(*request, tree.error());
  if (const std::string name = text_in(part(*tree, "metadata"), "name");
      is_scale(*request) && name != request->target.name)
    return answer_status(
        *request, Status::bad_request(format("the name of the object ({}) does not match the name on the URL ({})",
                                             name, request->target.name)));
  try_update(request, tools, *tree, kTries);
}

// --- patch ---

namespace {

Answered<json::object> patched(const Request& request, json::object tree) {
  const std::string type = header_of(request.http(), "content-type");
  const std::string kind(trim(type.substr(0, type.find(';'))));
  const json::value patch = TRY(read_patch(request));
  const Schema* schema = is_scale(request) ? request.kind->subresource("scale")->schema : request.kind->schema;
  json::value out;
  if (kind == "application/json-patch+json")
    out = TRY(apply_json_patch(std::move(tree), patch));
  else if (kind == "application/merge-patch+json")
    out = apply_merge_patch(std::move(tree), patch);
  else if (kind == "application/strategic-merge-patch+json" && schema && !request.kind->custom)
    out = TRY(apply_strategic_patch(std::move(tree), patch, *schema));
  else
    return Status::unsupported_media_type({"application/json-patch+json", "application/merge-patch+json",
                                           "application/strategic-merge-patch+json", "application/apply-patch+yaml"});
  if (!out.is_object())
    return Status::bad_request("the patch leaves no object");
  json::object& made = out.get_object();
  if (const json::value* metadata = made.if_contains("metadata"); metadata && !metadata->is_object())
    return bad_patch("metadata is no object");
  std::string api_version;
  const std::string asked(sent_kind(request, api_version).kind), kind_now = text_at(made, "kind");
  if (!kind_now.empty() && kind_now != asked)
    return bad_patch(
        format("no kind {} is registered for {} here: it is {}", quoted(kind_now), text_at(made, "apiVersion"), asked));
  if (const std::string ns = text_at(metadata_of(made), "namespace");
      request.kind->namespaced && !ns.empty() && ns != request.target.ns)
    return Status::bad_request("the namespace of the provided object does not match the namespace sent on the request");
  return std::move(made);
}

void try_apply(const Asked& request, const WriteTools& tools, int tries) {
  if (query_of(request->http(), "fieldManager").empty())
    return answer_status(
        *request,
        Status::invalid({"meta.k8s.io", "PatchOptions"}, "",
                        {{"FieldValueRequired", "Required value: is required for apply patch", "fieldManager"}}));
  auto config = read_body(*request, request->http().body);
  if (!config.ok())
    return answer_status(*request, config.error());
  json::object& metadata = metadata_of(*config);
  if (text_at(metadata, "name").empty())
    metadata["name"] = request->target.name;
  if (text_at(metadata, "name") != request->target.name)
    return answer_status(
        *request, Status::bad_request(format("the name of the object ({}) does not match the name on the URL ({})",
                                             text_at(metadata, "name"), request->target.name)));
  if (request->kind->namespaced)
    metadata["namespace"] = request->target.ns;
  const Ref<Object> before = find_object(*request);
  if (!before && !request->target.subresource.empty())
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  if (!in_its_version(request, tools, before, [=] { try_apply(request, tools, tries); }))
    return;
  const FieldSet ignored = ignored_by(*request);
  const json::value live = before ? json::value(shown_tree(*request, *before)) : json::value();
  auto applied = apply_configuration(live, json::value(*config), *request->kind->schema, manager_of(*request, ignored),
                                     query_flag(request->http(), "force") ? Force::kYes : Force::kNo);
  if (!applied.ok())
    return answer_status(*request, applied.error());
  json::object tree = std::move(applied->as_object());
  const Again again = tries > 0 ? Again([request, tools, tries] { try_apply(request, tools, tries - 1); }) : Again();
  if (before) {
    auto draft = draft_of_update(*request, before, std::move(tree), {}, Managers::kKnown);
    if (!draft.ok())
      return answer_status(*request, draft.error());
    return put(request, tools, std::move(*draft), {}, again);
  }
  auto draft = new_draft(*request, tools, std::move(tree), {}, Managers::kKnown);
  if (!draft.ok())
    return answer_status(*request, draft.error());
  auto reading = room_for(*request, request->target.name);
  if (!reading.ok())
    return answer_status(*request, reading.error());
  reading->records.push_back({key_of(*request), 0});
  put(request, tools, std::move(*draft), std::move(*reading), again);
}

void try_patch(const Asked& request, const WriteTools& tools, int tries) {
  if (is_apply(*request) && request->kind->schema)
    return try_apply(request, tools, tries);
  const Ref<Object> before = find_object(*request);
  if (!before)
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  if (!in_its_version(request, tools, before, [=] { try_patch(request, tools, tries); }))
    return;
  json::object old = shown_tree(*request, *before);
  if (is_scale(*request))
    old = scale_of(old, scale_paths(*request));
  auto tree = patched(*request, old);
  if (!tree.ok())
    return answer_status(*request, tree.error());
  // A version that the patch itself names is a condition; the one that was there is none.
  const bool conditional = names_version(*tree) && !same_json(tree->at("metadata").as_object().at("resourceVersion"),
                                                              old.at("metadata").as_object().at("resourceVersion"));
  if (is_scale(*request)) {
    if (const auto settled = settle(*tree, *builtin_kind_schema("autoscaling", "v1", "Scale")); !settled.ok())
      return answer_status(*request, bad_patch(settled.error().message));
    if (!conditional)
      metadata_of(*tree).erase("resourceVersion");
    *tree = scaled(*request, *before, *tree);
  }
  auto draft = draft_of_update(*request, before, std::move(*tree), request->http().body);
  if (!draft.ok())
    return answer_status(*request, draft.error());
  put(request, tools, std::move(*draft), {},
      tries > 0 && !conditional ? Again([request, tools, tries] { try_patch(request, tools, tries - 1); }) : Again());
}

}  // namespace

void patch_object(const Asked& request, const WriteTools& tools) { try_patch(request, tools, kTries); }

// --- delete ---

namespace {

struct Deletion {
  RemoveObject::Dependents dependents = RemoveObject::Dependents::kBackground;
  std::string uid, version;  // preconditions
  std::optional<std::int64_t> grace_seconds;
};

// Of these kinds a deletion that says nothing else leaves the pods, as it always has.
bool keeps_dependents(std::string_view type) { return type == "replicationcontrollers" || type == "jobs.batch"; }

Answered<Deletion> deletion_of(Request& request) {
  json::object options;
  if (!request.http().body.empty())
    options = TRY(read_options(request));
  Deletion out;
  std::string policy = text_at(options, "propagationPolicy");
  if (policy.empty())
    policy = query_of(request.http(), "propagationPolicy");
  const json::value* orphans = options.if_contains("orphanDependents");
  const bool says_both =
      ((orphans && orphans->is_bool()) || !query_of(request.http(), "orphanDependents").empty()) && !policy.empty();
  if (says_both)
    return Status::invalid(
        {"meta.k8s.io", "DeleteOptions"}, "",
        {{"FieldValueInvalid",
          format("Invalid value: \"{}\": orphanDependents and deletionPropagation cannot be both set", policy),
          "propagationPolicy"}});
  if (policy == "Orphan" || (orphans && orphans->is_bool() && orphans->get_bool()) ||
      query_flag(request.http(), "orphanDependents"))
    out.dependents = RemoveObject::Dependents::kOrphan;
  else if (policy == "Foreground")
    out.dependents = RemoveObject::Dependents::kForeground;
  else if (!policy.empty() && policy != "Background")
    return Status::invalid(
        {"meta.k8s.io", "DeleteOptions"}, "",
        {{"FieldValueNotSupported",
          format("Unsupported value: \"{}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
                 policy),
          "propagationPolicy"}});
  const bool deletes = (orphans && orphans->is_bool()) || !query_of(request.http(), "orphanDependents").empty();
  if (policy.empty() && !deletes && keeps_dependents(request.kind->type)) {
    out.dependents = RemoveObject::Dependents::kOrphan;
    if (request.kind->type == "jobs.batch")
      request.warnings.emplace_back(
          "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
          "or set propagationPolicy=Orphan to suppress this warning");
  }
  if (const json::object* conditions = member_object(options, "preconditions")) {
    out.uid = text_at(*conditions, "uid");
    out.version = text_at(*conditions, "resourceVersion");
  }
  if (const json::value* grace = options.if_contains("gracePeriodSeconds"); grace && is_number(*grace))
    out.grace_seconds = static_cast<std::int64_t>(number_of(*grace));
  else
    out.grace_seconds = parse_int(query_of(request.http(), "gracePeriodSeconds"));
  if (const json::array* dry = member_array(options, "dryRun"); dry && !dry->empty())
    request.dry_run = true;
  return out;
}

// The commands that delete it. None: that goes on already.
std::vector<CommandBody> commands_of(const Tables& tables, const Object& object, const Deletion& how) {
  std::vector<CommandBody> out;
  if (object.type == kPods)
    return deletion_of_pod(tables, object, how.grace_seconds, how.dependents);
  if (object.type == kNamespaces && !(object.meta.extra && object.meta.extra->deleting)) {
    Object marked = object;
    json::object tree = tree_of(object, {"v1", "Namespace"}, {});
    tree["status"] = {{"phase", "Terminating"}};
    Object told = object_of(object.type, std::move(tree));
    marked.body = told.body;
    out.emplace_back(PutObject{std::move(marked), object.meta.seq});
    out.emplace_back(RemoveObject{object.type, object.meta.ns, object.meta.name, 0, how.dependents});
    return out;
  }
  if (mutant(Mutant::kFinalizerIgnored) && how.grace_seconds == 0 && object.meta.extra) {
    Object bare = object;
    MetaExtra extra = *object.meta.extra;
    extra.finalizers.clear();
    bare.meta.extra = std::make_shared<const MetaExtra>(std::move(extra));
    out.emplace_back(PutObject{std::move(bare), object.meta.seq});
    out.emplace_back(RemoveObject{object.type, object.meta.ns, object.meta.name, 0, how.dependents});
    return out;
  }
  out.emplace_back(RemoveObject{object.type, object.meta.ns, object.meta.name, object.meta.seq, how.dependents});
  return out;
}

void answer_gone(const Request& request, const Object& object) {
  json::object details{{"name", object.meta.name}};
  if (!request.kind->group.empty())
    details["group"] = request.kind->group;
  details["kind"] = request.kind->plural;
  details["uid"] = uid_text(object.meta.uid);
  answer_tree(request, {{"kind", "Status"},
                        {"apiVersion", "v1"},
                        {"metadata", json::object()},
                        {"status", "Success"},
                        {"details", std::move(details)}});
}

// Kinds of which the deleted object is the answer; of others it is a Status.
bool shows_what_it_was(std::string_view type) {
  static const std::set<std::string_view> kinds{"pods",
                                                "services",
                                                "serviceaccounts",
                                                "namespaces",
                                                "resourcequotas",
                                                "persistentvolumes",
                                                "persistentvolumeclaims",
                                                "podtemplates",
                                                "storageclasses.storage.k8s.io",
                                                "csidrivers.storage.k8s.io",
                                                "csinodes.storage.k8s.io",
                                                "volumeattachments.storage.k8s.io",
                                                "volumeattributesclasses.storage.k8s.io",
                                                "resourceclaims.resource.k8s.io",
                                                "resourceclaimtemplates.resource.k8s.io",
                                                "resourceslices.resource.k8s.io",
                                                "deviceclasses.resource.k8s.io"};
  return kinds.contains(type);
}

void answer_deleted(const Request& request, const Object& object) {
  const auto reading = request.visit->read();
  const auto now = reading->tables.objects.find({object.type, object.meta.ns, object.meta.name});
  if (now != reading->tables.objects.end() && now->second->meta.uid == object.meta.uid)
    return answer_shown(request, *now->second, 200);
  if (shows_what_it_was(object.type))
    return answer_shown(request, object, 200);
  answer_gone(request, object);
}

// What a try says: whether it would go at once.
void answer_tried_deletion(const Request& request, const Object& object, const Deletion& how) {
  const bool kept = object.type == kPods || object.type == kNamespaces ||
                    how.dependents != RemoveObject::Dependents::kBackground ||
                    (object.meta.extra && !object.meta.extra->finalizers.empty());
  if (kept || shows_what_it_was(object.type))
    answer_shown(request, object, 200);
  else
    answer_gone(request, object);
}

// Goes on when rules, policies and webhooks let all of them go; else it answers.
void ask_deletion(const Asked& request, const WriteTools& tools,
                  std::shared_ptr<const std::vector<Ref<Object>>> objects, std::size_t at, std::function<void()> then) {
  for (; at < objects->size(); ++at) {
    json::object old = shown_tree(*request, *(*objects)[at]);
    if (auto refused = judge(*request, *tools.kinds, *tools.policies, nullptr, &old))
      return answer_status(*request, *refused);
    if (!has_webhooks(request->visit->read()->tables))
      continue;
    return ask_validating(request, tools.call, tools.random_hex(16), std::nullopt, std::move(old),
                          [request, tools, objects, at, then = std::move(then)](std::optional<Status> refused) {
                            if (refused)
                              return answer_status(*request, *refused);
                            ask_deletion(request, tools, objects, at + 1, then);
                          });
  }
  then();
}

void delete_admitted(const Asked& request, const WriteTools& tools, const Deletion& how, const Ref<Object>& object,
                     int tries);

void try_delete(const Asked& request, const WriteTools& tools, const Deletion& how, int tries) {
  const Ref<Object> object = find_object(*request);
  if (!object)
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  if (!in_its_version(request, tools, object, [=] { try_delete(request, tools, how, tries); }))
    return;
  if (!how.uid.empty() && how.uid != uid_text(object->meta.uid))
    return answer_status(
        *request, Status::conflict({request->kind->group, request->kind->kind}, request->target.name,
                                   format("the UID in the precondition ({}) does not match the UID in record ({}). The "
                                          "object might have been deleted and then recreated",
                                          how.uid, uid_text(object->meta.uid))));
  if (!how.version.empty() && how.version != std::to_string(object->meta.seq))
    return answer_status(
        *request,
        Status::conflict({request->kind->group, request->kind->kind}, request->target.name,
                         format("the ResourceVersion in the precondition ({}) does not match the ResourceVersion in "
                                "record ({}). The object might have been modified",
                                how.version, object->meta.seq)));
  if (object->type == kNamespaces &&
      std::ranges::find(kLastingNamespaces, object->meta.name) != std::end(kLastingNamespaces))
    return answer_status(
        *request, Status::forbidden(request->resource(), object->meta.name, "this namespace may not be deleted"));
  ask_deletion(request, tools, std::make_shared<const std::vector<Ref<Object>>>(1, object), 0,
               [request, tools, how, object, tries] { delete_admitted(request, tools, how, object, tries); });
}

void delete_admitted(const Asked& request, const WriteTools& tools, const Deletion& how, const Ref<Object>& object,
                     int tries) {
  if (request->dry_run)
    return answer_tried_deletion(*request, *object, how);
  if (is_converted_by_webhook(*request->kind))
    request->written = shown_tree(*request, *object);
  auto bodies = commands_of(request->visit->read()->tables, *object, how);
  if (bodies.empty())
    return answer_deleted(*request, *object);
  commit_for(*request, std::move(bodies), Reading{}, [request, tools, how, object, tries](const Result<Answer>& done) {
    if (!done.ok() && tries > 0 && (done.error().code == Errc::kConflict || done.error().code == Errc::kNotFound))
      return try_delete(request, tools, how, tries - 1);
    if (!done.ok())
      return answer_status(*request, status_of(done.error(), request->resource(), request->target.name));
    answer_deleted(*request, *object);
  });
}

// Several, kTogetherMax at most in one commit; what has gone by itself meanwhile is no failure.
void delete_rest(const Asked& request, const Deletion& how, std::shared_ptr<std::vector<Ref<Object>>> objects,
                 std::size_t from) {
  const auto reading = request->visit->read();
  std::vector<CommandBody> bodies;
  for (; from < objects->size() && bodies.size() + kDeletionMost <= kTogetherMax; ++from) {
    const Object& object = *(*objects)[from];
    const auto now = reading->tables.objects.find({object.type, object.meta.ns, object.meta.name});
    if (now == reading->tables.objects.end() || now->second->meta.uid != object.meta.uid || request->dry_run)
      continue;
    for (CommandBody& body : commands_of(reading->tables, *now->second, how)) bodies.push_back(std::move(body));
  }
  if (bodies.empty()) {
    std::string out = list_head(*request, reading->tables.seq, "", 0);
    for (std::size_t i = 0; i < objects->size(); ++i) {
      out += i ? "," : "";
      append_item(out, *request, *(*objects)[i]);
    }
    return answer_json(*request, out + list_end());
  }
  commit_for(*request, std::move(bodies), Reading{}, [request, how, objects, from](const Result<Answer>& done) {
    // What one of them had changed meanwhile refuses all: they are tried again as they are now.
    if (!done.ok() && done.error().code != Errc::kConflict && done.error().code != Errc::kNotFound)
      return answer_status(*request, status_of(done.error(), request->resource(), ""));
    delete_rest(request, how, objects, done.ok() ? from : 0);
  });
}

}  // namespace

void delete_object(const Asked& request, const WriteTools& tools) {
  const auto how = deletion_of(*request);
  if (!how.ok())
    return answer_status(*request, how.error());
  try_delete(request, tools, *how, kTries);
}

void delete_objects(const Asked& request, const WriteTools& tools, const ObjectHistory& history) {
  const auto how = deletion_of(*request);
  if (!how.ok())
    return answer_status(*request, how.error());
  const auto selection = selection_of(*request);
  if (!selection.ok())
    return answer_status(*request, selection.error());
  const auto read = request->visit->read();
  auto page = history.page(read->tables, request->kind->type, request->target.ns, read->tables.seq, nullptr, SIZE_MAX,
                           selection->by_meta, false);
  const auto objects = std::make_shared<std::vector<Ref<Object>>>(std::move(page->objects));
  convert_for(request, conversion_of(tools), *objects,
              [request, tools, how = *how, objects, selection = *selection](const std::optional<Status>& failed) {
                if (failed)
                  return answer_status(*request, *failed);
                if (selection.by_body)  // by the fields of the version that was asked for
                  std::erase_if(*objects, [&](const Ref<Object>& one) { return !selection.by_body(*one, nullptr); });
                ask_deletion(request, tools, objects, 0,
                             [request, how, objects] { delete_rest(request, how, objects, 0); });
              });
}

}  // namespace lockstep::kube
