// Custom resource definitions: their names are accepted, they are served, and when one is deleted its objects go first.
// Source: kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions.
#include <algorithm>
#include <boost/json/array.hpp>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kCleanup = "customresourcecleanup.apiextensions.k8s.io";
constexpr std::size_t kInstancesAtOnce = 200;

// Names that another definition of the group has already; empty: none.
std::string clash(const ObjectView& view, const Object& mine, const json::value& spec) {
  const std::string group = text_in(spec, "group");
  const json::value& names = part(spec, "names");
  const auto& objects = view.objects();
  for (auto at = objects.lower_bound({std::string(kDefinitions), "", ""});
       at != objects.end() && std::get<0>(at->first) == kDefinitions; ++at) {
    const Object& other = *at->second;
    if (other.meta.uid == mine.meta.uid)
      continue;
    const json::value body = body_of(other);
    if (text_in(part(body, "spec"), "group") != group)
      continue;
    const json::value& taken = part(part(body, "status"), "acceptedNames");
    for (const char* word : {"plural", "singular", "kind", "listKind"})
      if (const std::string name = text_in(names, word); !name.empty() && name == text_in(taken, word))
        return name;
  }
  return {};
}

json::object condition(const char* type, bool is, const char* reason, const std::string& message,
                       const std::string& time) {
  return {{"type", type},
          {"status", is ? "True" : "False"},
          {"lastTransitionTime", time},
          {"reason", reason},
          {"message", message}};
}

// The conditions with one of them set; its time stays while its status does.
void put_condition(json::array& conditions, json::object wanted) {
  for (json::value& one : conditions)
    if (text_in(one, "type") == text_of(wanted["type"])) {
      if (text_in(one, "status") == text_of(wanted["status"]) && one.as_object().contains("lastTransitionTime"))
        wanted["lastTransitionTime"] = one.as_object()["lastTransitionTime"];
      one = std::move(wanted);
      return;
    }
  conditions.push_back(std::move(wanted));
}

class DefinitionController final : public Reconciler {
 public:
  std::string_view name() const override { return "custom resources"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kDefinitions) {
      out.push_back(key_of(changed));
      return;
    }
    // An object of a definition that is being deleted has gone.
    if (const auto definition = view.find(kDefinitions, "", changed.type); definition && is_deleting(*definition))
      out.push_back(key_of(*definition));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto definition = view.find(kDefinitions, "", std::get<2>(key));
    if (!definition)
      return;
    if (is_deleting(*definition))
      return clean_up(view, *definition, now, out);
    json::object body = body_of(*definition);
    const json::value spec = body["spec"];
    const json::value before = body.contains("status") ? body["status"] : json::value(json::object());
    json::object status = before.is_object() ? before.get_object() : json::object();
    const std::string time = time_text(now, view.wall_offset());
    json::array conditions;
    if (const json::value* had = status.if_contains("conditions"); had && had->is_array())
      conditions = had->get_array();
    const std::string taken = clash(view, *definition, spec);
    if (taken.empty())
      status["acceptedNames"] = part(spec, "names");
    else if (!status.contains("acceptedNames"))
      status["acceptedNames"] = {{"plural", ""}, {"kind", ""}};
    put_condition(conditions,
                  condition("NamesAccepted", taken.empty(), taken.empty() ? "NoConflicts" : "NameConflict",
                            taken.empty() ? "no conflicts found" : "\"" + taken + "\" is already in use", time));
    const bool established = taken.empty() || is_established(conditions);
    put_condition(conditions,
                  condition("Established", established, established ? "InitialNamesAccepted" : "NotAccepted",
                            established ? "the initial names have been accepted" : "not all names are accepted", time));
    status["conditions"] = std::move(conditions);
    json::array stored;
    if (const json::value* had = status.if_contains("storedVersions"); had && had->is_array())
      stored = had->get_array();
    if (const json::array* versions = member_array(spec, "versions"))
      for (const json::value& version : *versions) {
        const bool is_storage = part(version, "storage").is_bool() && part(version, "storage").get_bool();
        const json::value& name = part(version, "name");
        if (is_storage && std::ranges::find(stored, name) == stored.end())
          stored.push_back(name);
      }
    status["storedVersions"] = std::move(stored);
    Object changed = *definition;
    if (!same_json(before, status)) {
      body["status"] = std::move(status);
      changed = with_body(changed, body);
    }
    if (!has_finalizer(changed, kCleanup)) {
      auto extra = std::make_shared<MetaExtra>(changed.meta.extra ? *changed.meta.extra : MetaExtra{});
      extra->finalizers.emplace_back(kCleanup);
      changed.meta.extra = std::move(extra);
    }
    if (changed.body != definition->body || changed.meta.extra != definition->meta.extra)
      wish_changed(out, std::move(changed), definition->meta.seq);
  }

 private:
  static bool is_established(const json::array& conditions) {
    return std::ranges::any_of(conditions, [](const json::value& one) {
      return text_in(one, "type") == "Established" && text_in(one, "status") == "True";
    });
  }

  // Nothing new is made meanwhile: what is made rests on a version of the definition that was not being deleted.
  static void clean_up(const ObjectView& view, const Object& definition, Instant now, Wishes& out) {
    if (!has_finalizer(definition, kCleanup))
      return;
    const std::string& type = definition.meta.name;
    const auto& objects = view.objects();
    bool any = false;
    for (auto at = objects.lower_bound({type, "", ""}); at != objects.end() && std::get<0>(at->first) == type; ++at) {
      any = true;
      if (out.wishes.size() == kInstancesAtOnce)
        return;
      if (!is_deleting(*at->second))
        out.add(RemoveObject{type, at->second->meta.ns, at->second->meta.name, at->second->meta.seq});
    }
    if (any)
      return;
    json::object body = body_of(definition);
    json::value& status = body["status"];
    json::object& told = status.is_object() ? status.get_object() : status.emplace_object();
    json::array conditions;
    if (const json::value* had = told.if_contains("conditions"); had && had->is_array())
      conditions = had->get_array();
    put_condition(conditions, condition("Terminating", false, "InstanceDeletionCompleted", "removed all instances",
                                        time_text(now, view.wall_offset())));
    told["conditions"] = std::move(conditions);
    wish_changed(out, without_finalizer(with_body(definition, body), kCleanup), definition.meta.seq);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> definition_controller() { return std::make_shared<DefinitionController>(); }

}  // namespace lockstep::kube
