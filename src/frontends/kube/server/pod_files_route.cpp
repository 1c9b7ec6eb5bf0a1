#include "frontends/kube/server/pod_files_route.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/claims.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/target.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"
#include "wire/lasting_volumes.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kNodeNames = "node:";

Error no_such_pod() { return not_found("there is no pod whose job that is"); }

// The pod that the job was made for. Null: there is none.
Ref<Object> pod_of(const Tables& tables, const Job& job) {
  if (job.meta.extra)
    for (const OwnerRef& owner : job.meta.extra->owners)
      if (const auto at = tables.objects.find({std::string(kPods), job.meta.ns, owner.name});
          owner.controller && at != tables.objects.end() && at->second->meta.uid == owner.uid)
        return at->second;
  return nullptr;
}

// A node asks for what runs there, through its own agent.
bool may_ask(const Peer& peer, const Tables& tables, const Job& job) {
  const User* owner = tables.user(job.spec->user);
  if (peer.how != Peer::How::kForwarded || !peer.realm.empty() || !job.allocation ||
      (peer.uid != 0 && !(owner && owner->uid == peer.uid)))
    return false;
  const std::string_view name = peer.certificate_name;
  const Node* node = name.starts_with(kNodeNames) ? tables.node(name.substr(kNodeNames.size())) : nullptr;
  return node &&
         std::ranges::any_of(job.allocation->grants, [&](const Grant& grant) { return grant.node == node->id; });
}

}  // namespace

void answer_pod_files(FrontVisit& visit, const PodFilesTools& tools) {
  const auto read = visit.read();
  const auto id = parse_uint(query_of(visit.request(), "job"));
  const Job* job = id ? read->tables.job(JobId(*id)) : nullptr;
  if (!job)
    return visit.refuse(no_such_pod());
  if (!may_ask(visit.request().peer, read->tables, *job))
    return visit.refuse(denied("what a pod's containers are given is told to the node that they run on"));
  const auto pod = pod_of(read->tables, *job);
  if (!pod)
    return visit.refuse(no_such_pod());
  // What tokens claim says whether they are the same; they are signed only where they are sent.
  const PodFilesTools unsigned_tools{[](std::string_view claims) { return std::string(claims); }, tools.sha256_hex,
                                     tools.address, tools.services};
  const std::string version =
      tools.sha256_hex(json::serialize(files_of_pod(read->tables, *pod, unsigned_tools, read->now))).substr(0, 32);
  if (query_of(visit.request(), "version") == version)
    return visit.answer({304, "application/json", "", {}});
  json::object out{{"version", version}};
  for (auto& [name, value] : files_of_pod(read->tables, *pod, tools, read->now)) out[name] = std::move(value);
  visit.answer({200, "application/json", json::serialize(out), {}});
}

namespace {

// "kept": it stays when its volume goes; "passing": it goes with it; "gone": neither volume nor claim is there;
// "coming": a claim is, its volume is not there yet.
std::string_view fate_of(const Tables& tables, const std::string& name) {
  if (const auto at = tables.objects.find({std::string(kVolumes), "", name}); at != tables.objects.end()) {
    const json::value body = parse_own(at->second->body.get());
    const auto* notes = at->second->meta.extra ? &at->second->meta.extra->annotations : nullptr;
    const bool ours = notes && std::ranges::any_of(*notes, [](const auto& note) {
                        return note.first == "pv.kubernetes.io/provisioned-by" && note.second == kLocalProvisioner;
                      });
    return ours && text_in(part(body, "spec"), "persistentVolumeReclaimPolicy") == "Delete" ? "passing" : "kept";
  }
  const std::string type(kClaims);
  for (auto at = tables.objects.lower_bound({type, "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == type; ++at)
    if (provisioned_name(uid_text(at->second->meta.uid)) == name)
      return "coming";
  return "gone";
}

bool is_root_of_node(const Peer& peer, const Tables& tables) {
  return peer.how == Peer::How::kForwarded && peer.realm.empty() && peer.uid == 0 &&
         peer.certificate_name.starts_with(kNodeNames) &&
         tables.node(peer.certificate_name.substr(kNodeNames.size())) != nullptr;
}

}  // namespace

void answer_lasting(FrontVisit& visit) {
  const auto read = visit.read();
  if (!is_root_of_node(visit.request().peer, read->tables))
    return visit.refuse(denied("what becomes of volumes is told to root of the cluster's nodes"));
  const std::vector<std::string> names = split(query_of(visit.request(), "names"), ',');
  if (names.size() > kLastingAtOnce)
    return visit.refuse(invalid(format("{} names in one question: {} may be", names.size(), kLastingAtOnce), "names"));
  json::array fates;
  for (const std::string& name : names) {
    const std::string_view fate = fate_of(read->tables, name);
    fates.push_back(json::string_view(fate.data(), fate.size()));
  }
  visit.answer({200, "application/json", json::serialize(json::object{{"volumes", std::move(fates)}}), {}});
}

}  // namespace lockstep::kube
