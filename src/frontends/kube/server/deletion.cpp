#include <algorithm>
#include <set>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/body.h"
#include "frontends/kube/server/conversion.h"
#include "frontends/kube/server/pods.h"
#include "frontends/kube/server/selection.h"
#include "frontends/kube/server/shown.h"
#include "frontends/kube/server/write.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kDeletionMost = 4;  // commands that delete one object
constexpr int kDeletionTries = 8;         // when another change came first
constexpr const char* kLastingNamespaces[] = {"default", "kube-system", "kube-public", "kube-node-lease"};

ConversionTools conversions(const WriteTools& tools) { return {tools.call, tools.random_hex}; }

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
  std::string policy = text_in(options, "propagationPolicy");
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
    out.uid = text_in(*conditions, "uid");
    out.version = text_in(*conditions, "resourceVersion");
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
    return ask_validating(request, {tools.call, tools.random_hex, tools.kinds}, tools.random_hex(16), std::nullopt,
                          std::move(old),
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
  if (is_to_be_converted(*request, *object))
    return convert_for(request, conversions(tools), {object},
                       [request, tools, how, tries](const std::optional<Status>& failed) {
                         if (failed)
                           return answer_status(*request, *failed);
                         try_delete(request, tools, how, tries);
                       });
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

struct Collection {
  Deletion how;
  std::vector<Ref<Object>> objects;
  std::size_t next = 0;                 // those before have been seen to
  std::size_t together = kTogetherMax;  // commands in one commit, at most
  int tries = kDeletionTries;           // of an object whose deletion was alone in its commit
};

void answer_collection(const Request& request, const Collection& all) {
  std::string out = list_head(request, request.visit->read()->tables.seq, "", 0);
  for (std::size_t i = 0; i < all.objects.size(); ++i) {
    out += i ? "," : "";
    append_item(out, request, *all.objects[i]);
  }
  answer_json(request, out + list_end());
}

// Several in one commit; what has gone by itself meanwhile is no failure. What one of them had changed meanwhile
// refuses all: they are tried again as they are now, half as many, until the one that keeps changing is alone.
void delete_rest(const Asked& request, const std::shared_ptr<Collection>& all) {
  const auto reading = request->visit->read();
  std::vector<CommandBody> bodies;
  std::size_t end = all->next;
  for (; end < all->objects.size() && bodies.size() + kDeletionMost <= all->together; ++end) {
    const Object& object = *all->objects[end];
    const auto now = reading->tables.objects.find({object.type, object.meta.ns, object.meta.name});
    if (now == reading->tables.objects.end() || now->second->meta.uid != object.meta.uid || request->dry_run)
      continue;
    for (CommandBody& body : commands_of(reading->tables, *now->second, all->how)) bodies.push_back(std::move(body));
  }
  if (bodies.empty())
    return answer_collection(*request, *all);
  commit_for(*request, std::move(bodies), Reading{}, [request, all, end](const Result<Answer>& done) {
    if (done.ok()) {
      all->next = end;
      all->together = kTogetherMax;
      all->tries = kDeletionTries;
      return delete_rest(request, all);
    }
    const bool raced = done.error().code == Errc::kConflict || done.error().code == Errc::kNotFound;
    const bool alone = all->together < 2 * kDeletionMost;
    if (!raced || (alone && --all->tries == 0))
      return answer_status(*request, status_of(done.error(), request->resource(), ""));
    all->together = std::max(all->together / 2, kDeletionMost);
    delete_rest(request, all);
  });
}

}  // namespace

void delete_object(const Asked& request, const WriteTools& tools) {
  const auto how = deletion_of(*request);
  if (!how.ok())
    return answer_status(*request, how.error());
  try_delete(request, tools, *how, kDeletionTries);
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
  convert_for(request, conversions(tools), *objects,
              [request, tools, how = *how, objects, selection = *selection](const std::optional<Status>& failed) {
                if (failed)
                  return answer_status(*request, *failed);
                if (selection.by_body)  // by the fields of the version that was asked for
                  std::erase_if(*objects, [&](const Ref<Object>& one) { return !selection.by_body(*one, nullptr); });
                ask_deletion(request, tools, objects, 0, [request, how, objects] {
                  delete_rest(request, std::make_shared<Collection>(Collection{.how = how, .objects = *objects}));
                });
              });
}

}  // namespace lockstep::kube
