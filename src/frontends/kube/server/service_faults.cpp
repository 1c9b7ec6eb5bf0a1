#include "frontends/kube/server/service_faults.h"

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/target.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kOfNodes = "node:";

// "": a node says nothing like that.
std::string fault_words(std::string_view what, std::string_view node) {
  if (what == "refused")
    return format(
        "the packet filter of node {} does not take this Service: it leads nowhere from there until it changes", node);
  if (what == "beyond")
    return format(
        "the Services of this namespace are more than node {} keeps for one: this one leads nowhere from there", node);
  return {};
}

json::object fault_event(const Object& service, const std::string& name, const std::string& words,
                         const std::string& time) {
  return {{"metadata", {{"name", name}, {"namespace", service.meta.ns}, {"creationTimestamp", time}}},
          {"involvedObject",
           {{"kind", "Service"},
            {"namespace", service.meta.ns},
            {"name", service.meta.name},
            {"uid", uid_text(service.meta.uid)},
            {"apiVersion", "v1"},
            {"resourceVersion", std::to_string(service.meta.seq)}}},
          {"reason", "LeadsNowhere"},
          {"message", words},
          {"source", {{"component", "lockstep-services"}}},
          {"firstTimestamp", time},
          {"lastTimestamp", time},
          {"count", 1},
          {"type", "Warning"},
          {"eventTime", nullptr},
          {"reportingComponent", "lockstep-services"},
          {"reportingInstance", ""}};
}

}  // namespace

void answer_service_fault(const std::shared_ptr<FrontVisit>& visit,
                          const std::function<std::string(std::string_view)>& sha256_hex) {
  const Peer& peer = visit->request().peer;
  const auto read = visit->read();
  const std::string_view holder = peer.certificate_name;
  const bool is_node = peer.how == Peer::How::kForwarded && peer.realm.empty() && peer.uid == 0 &&
                       holder.starts_with(kOfNodes) && read->tables.node(holder.substr(kOfNodes.size()));
  if (!is_node)
    return visit->refuse(denied("what becomes of services is told by the nodes of the cluster, through their agents"));
  const std::string node(holder.substr(kOfNodes.size())), what = query_of(visit->request(), "what");
  const std::string words = fault_words(what, node);
  if (words.empty())
    return visit->refuse(invalid("what: \"refused\" or \"beyond\" is meant", "what"));
  const auto service =
      read->tables.objects.find({"services", query_of(visit->request(), "space"), query_of(visit->request(), "name")});
  if (service == read->tables.objects.end())
    return visit->refuse(not_found("there is no such Service"));
  const std::string name =
      format("{}.{}", service->second->meta.name,
             sha256_hex(format("{}/{}/{}", service->second->meta.uid.value, what, node)).substr(0, 16));
  Object event =
      object_of("events", fault_event(*service->second, name, words, time_text(read->now, read->wall_offset)));
  const ObjectKey key{event.type, event.meta.ns, event.meta.name};
  if (read->tables.objects.contains(key))
    return visit->answer({200, "application/json", "{}", {}});
  Reading fresh;
  fresh.records.push_back({key, 0});
  visit->commit_judged({PutObject{std::move(event), 0}}, std::move(fresh), [visit](const Result<Answer>& done) {
    if (done.ok())
      visit->answer({200, "application/json", "{}", {}});
    else
      visit->refuse(done.error());
  });
}

}  // namespace lockstep::kube
