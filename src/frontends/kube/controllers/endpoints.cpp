// Where Services lead: an Endpoints object and an EndpointSlice for each that selects pods, and a slice for each
// Endpoints object that somebody wrote by hand.
// Source: kubernetes.io/docs/concepts/services-networking/endpoint-slices.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/endpoint_subsets.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kEndpoints = "endpoints", kSlices = "endpointslices.discovery.k8s.io";
constexpr const char* kServiceName = "kubernetes.io/service-name";
constexpr const char* kManagedBy = "endpointslice.kubernetes.io/managed-by";
constexpr const char* kOfServices = "endpointslice-controller.k8s.io";
constexpr const char* kOfEndpoints = "endpointslicemirroring-controller.k8s.io";
constexpr const char* kSkipMirror = "endpointslice.kubernetes.io/skip-mirror";
constexpr const char* kByController = "endpoints.kubernetes.io/managed-by";

const std::string* label_of(const Object& object, std::string_view key) {
  if (object.meta.extra)
    for (const auto& [name, value] : object.meta.extra->labels)
      if (name == key)
        return &value;
  return nullptr;
}

json::object labels_of(const Object& object) {
  json::object out;
  if (object.meta.extra)
    for (const auto& [key, value] : object.meta.extra->labels) out[key] = value;
  return out;
}

constexpr std::size_t kEndsOfSlice = 100;
constexpr std::size_t kAddressesOfEndpoints = 1000;  // the older object tells no more

// "web-4kx7q": the same for one owner at any time, so that a doubled controller makes nothing twice.
std::string slice_name(const Object& owner, std::string_view controller) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::uint64_t hash = owner.meta.uid.value * 0x9e3779b97f4a7c15ull + std::hash<std::string_view>()(controller);
  std::string out = owner.meta.name + "-";
  for (int i = 0; i < 5; ++i, hash /= kLetters.size()) out += kLetters[hash % kLetters.size()];
  return out;
}

json::object owner_reference(const Object& owner, const char* version, const char* kind) {
  return {{"apiVersion", version},           {"kind", kind},       {"name", owner.meta.name},
          {"uid", uid_text(owner.meta.uid)}, {"controller", true}, {"blockOwnerDeletion", true}};
}

// Makes, changes or leaves an object so that it says this; `parts` are the members besides metadata.
void keep(const ObjectView& view, Instant now, Wishes& out, std::string_view type, const std::string& ns,
          const std::string& name, const json::object& labels, const json::object* owner, const json::object& parts) {
  json::object metadata{{"name", name}, {"namespace", ns}, {"labels", labels}};
  if (owner)
    metadata["ownerReferences"] = json::array{*owner};
  const auto known = view.find(type, ns, name);
  if (!known) {
    json::object tree = parts;
    tree["metadata"] = std::move(metadata);
    return wish_new(out, view, now, type, std::move(tree));
  }
  if (is_deleting(*known))
    return;
  json::object body = body_of(*known);
  json::object wanted = parts;
  wanted["metadata"] = body["metadata"];
  if (same_json(body, wanted))
    return;
  wish_changed(out, with_body(*known, wanted), known->meta.seq);
}

// The pods that a Service selects, with what they are reached by.
struct Target {
  std::string ip, name, uid, node;
  bool ready = false, going = false;
  bool told = false;  // as ready: it is and stays, or the Service wants all
  std::string host;   // its own name under the Service's
  std::map<std::pair<std::string, std::string>, json::value> ports;  // of its containers, by name and protocol
};

std::string protocol_of(const json::value& port) {
  const std::string said = text_in(port, "protocol");
  return said.empty() ? "TCP" : said;
}

std::vector<Target> targets_of(const ObjectView& view, const Object& service, const json::object& selector) {
  std::vector<Target> out;
  const LabelSelector wanted = select_labels(selector);
  const json::object service_body = body_of(service);
  const json::value& tells_all = part(part(service_body, "spec"), "publishNotReadyAddresses");
  const bool as_ready = tells_all.is_bool() && tells_all.get_bool();
  const std::string type(kPods);
  for (auto at = view.objects().lower_bound({type, service.meta.ns.get(), ""});
       at != view.objects().end() && std::get<0>(at->first) == type && std::get<1>(at->first) == service.meta.ns.get();
       ++at) {
    const Object& pod = *at->second;
    if (!wanted.matches(labels_of(pod)))
      continue;
    const auto read = view.pod(pod.meta.ns.get(), pod.meta.name);
    if (!read || read->address.empty() || read->ended())
      continue;
    Target one{read->address, pod.meta.name, uid_text(pod.meta.uid), read->node, read->ready, is_deleting(pod)};
    // Its own name under the Service's, where it says that it is of this one.
    if (read->subdomain == service.meta.name)
      one.host = read->host_name;
    for (const PodReading::Port& port : read->ports)
      one.ports.try_emplace({port.name, port.protocol}, json::value(port.number));
    one.told = as_ready || (one.ready && !one.going);
    out.push_back(std::move(one));
  }
  return out;
}

// A port of a Service as its targets have it.
json::object target_port(const json::value& port) {
  json::object out{{"name", text_in(port, "name")}};
  const json::value& target = part(port, "targetPort");
  out["port"] = is_number(target) ? target : part(port, "port");
  out["protocol"] = protocol_of(port);
  if (const std::string app = text_in(port, "appProtocol"); !app.empty())
    out["appProtocol"] = app;
  return out;
}

// As Endpoints have them, where a port without a name says nothing of it; in slices it has an empty one.
json::array named_ports(json::array ports) {
  for (json::value& port : ports)
    if (text_in(port, "name").empty())
      port.as_object().erase("name");
  return ports;
}

// The ports by which one target is reached: each pod says itself which number a name stands for.
json::array ports_at(const json::value& spec, const Target& target) {
  json::array out;
  for (const json::value& port : list_in(spec, "ports")) {
    json::object there = target_port(port);
    if (const std::string name = text_in(port, "targetPort"); !name.empty()) {
      const auto known = target.ports.find({name, protocol_of(port)});
      if (known == target.ports.end())
        continue;
      there["port"] = known->second;
    }
    out.push_back(std::move(there));
  }
  return out;
}

// Targets that are reached by the same ports.
struct SamePorts {
  json::array ports, ready, not_ready, slice;
};

class EndpointController final : public Reconciler {
 public:
  std::string_view name() const override { return "endpoints"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    const std::string& ns = changed.meta.ns;
    const auto wake = [&](const std::string& name) { out.push_back({std::string(kServices), ns, name}); };
    if (changed.type == kServices || changed.type == kEndpoints) {
      wake(changed.meta.name);
    } else if (changed.type == kSlices) {
      if (const std::string* service = label_of(changed, kServiceName))
        wake(*service);
    } else if (changed.type == kPods) {
      const std::string type(kServices);
      for (auto at = view.objects().lower_bound({type, ns, ""});
           at != view.objects().end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns; ++at)
        wake(std::get<2>(at->first));
    }
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto& [type, ns, name] = key;
    if (const auto around = view.find("namespaces", "", ns); !around || is_deleting(*around))
      return;
    const auto service = view.find(kServices, ns, name);
    const auto endpoints = view.find(kEndpoints, ns, name);
    if (!service || is_deleting(*service)) {
      if (endpoints && !is_deleting(*endpoints) && label_of(*endpoints, kByController))
        out.add(RemoveObject{endpoints->type, ns, name, endpoints->meta.seq});
      return mirror(view, nullptr, nullptr, ns, name, now, out);
    }
    const json::value body = body_of(*service);
    const json::object* selector = member_object(part(body, "spec"), "selector");
    if (selector && !selector->empty())
      follow(view, *service, body, *selector, now, out);
    else
      mirror(view, service.get(), endpoints.get(), ns, name, now, out);
  }

 private:
  static void follow(const ObjectView& view, const Object& service, const json::value& body,
                     const json::object& selector, Instant now, Wishes& out) {
    const json::value& spec = part(body, "spec");
    std::map<std::string, SamePorts> groups;
    for (const Target& one : targets_of(view, service, selector)) {
      json::array ports = ports_at(spec, one);
      SamePorts& group = groups[json::serialize(ports)];
      group.ports = std::move(ports);
      add(group, one, service.meta.ns);
    }
    json::object parts;
    json::array subsets;
    std::size_t room = kAddressesOfEndpoints;
    for (const auto& [text, group] : groups) {
      json::object subset;
      for (const auto& [list, all] :
           {std::pair("addresses", &group.ready), std::pair("notReadyAddresses", &group.not_ready)}) {
        const std::size_t count = std::min(room, all->size());
        room -= count;
        if (count > 0)
          subset[list] = json::array(all->begin(), all->begin() + static_cast<std::ptrdiff_t>(count));
      }
      if (subset.empty())
        continue;
      subset["ports"] = named_ports(group.ports);
      subsets.push_back(std::move(subset));
    }
    if (!subsets.empty())
      parts["subsets"] = std::move(subsets);
    json::object labels = labels_of(service);
    const bool headless = text_in(spec, "clusterIP") == "None";
    if (headless)
      labels["service.kubernetes.io/headless"] = "";
    json::object own = labels;
    own[kByController] = "endpoint-controller";
    keep(view, now, out, kEndpoints, service.meta.ns, service.meta.name, own, nullptr, parts);
    labels[kServiceName] = service.meta.name;
    labels[kManagedBy] = kOfServices;
    keep_slices(view, service, labels, groups, now, out);
  }

  static void add(SamePorts& group, const Target& one, const std::string& ns) {
    json::object reference{{"kind", "Pod"}, {"namespace", ns}, {"name", one.name}, {"uid", one.uid}};
    json::object address{{"ip", one.ip}, {"targetRef", reference}};
    if (!one.node.empty())
      address["nodeName"] = one.node;
    if (!one.host.empty())
      address["hostname"] = one.host;
    if (one.told)
      group.ready.push_back(std::move(address));
    else if (!one.going)  // the older object knows no ends that go
      group.not_ready.push_back(std::move(address));
    json::object end{{"addresses", json::array{json::string_view(one.ip)}},
                     {"conditions", {{"ready", one.told}, {"serving", one.ready}, {"terminating", one.going}}},
                     {"targetRef", std::move(reference)}};
    if (!one.host.empty())
      end["hostname"] = one.host;
    if (!one.node.empty())
      end["nodeName"] = one.node;
    group.slice.push_back(std::move(end));
  }

  // Parts of a slice that would be too long. What an end's part is follows from itself alone, so that one that comes or
  // goes changes one part; the number of parts doubles.
  static std::vector<json::array> parts_of(json::array ends) {
    std::size_t count = 1;
    if (ends.size() > kEndsOfSlice)
      while (ends.size() > count * kEndsOfSlice / 2) count *= 2;
    std::vector<json::array> out(count);
    for (json::value& end : ends)
      out[std::hash<std::string>()(text_in(part(end, "targetRef"), "uid")) % count].push_back(std::move(end));
    return out;
  }

  // Slices for each group; the first, or the only one and empty, has the plain name.
  static void keep_slices(const ObjectView& view, const Object& service, const json::object& labels,
                          std::map<std::string, SamePorts>& groups, Instant now, Wishes& out) {
    const json::object owner = owner_reference(service, "v1", "Service");
    if (groups.empty())
      groups[""];
    std::set<std::string> kept;
    for (auto& [text, group] : groups)
      for (json::array& ends : parts_of(std::move(group.slice))) {
        const std::string plain = slice_name(service, kOfServices);
        const std::string name = kept.empty() ? plain : format("{}-{}", plain, kept.size());
        kept.insert(name);
        keep(view, now, out, kSlices, service.meta.ns, name, labels, &owner,
             {{"addressType", "IPv4"}, {"endpoints", std::move(ends)}, {"ports", group.ports}});
      }
    remove_slices_but(view, service.meta.ns, service.meta.name, kOfServices, kept, out);
  }

  static void remove_slices_but(const ObjectView& view, const std::string& ns, const std::string& service,
                                std::string_view maker, const std::set<std::string>& kept, Wishes& out) {
    const std::string type(kSlices);
    for (auto at = view.objects().lower_bound({type, ns, ""});
         at != view.objects().end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns; ++at) {
      const Object& slice = *at->second;
      const std::string* by = label_of(slice, kManagedBy);
      const std::string* of = label_of(slice, kServiceName);
      if (by && *by == maker && of && *of == service && !kept.contains(slice.meta.name) && !is_deleting(slice))
        out.add(RemoveObject{slice.type, ns, slice.meta.name, slice.meta.seq});
    }
  }

  // Without a selector: what somebody wrote into Endpoints stands in a slice, too.
  static void mirror(const ObjectView& view, const Object* service, const Object* endpoints, const std::string& ns,
                     const std::string& name, Instant now, Wishes& out) {
    const bool wanted = service && endpoints && !is_deleting(*endpoints) && !label_of(*endpoints, kByController) &&
                        !(label_of(*endpoints, kSkipMirror) && *label_of(*endpoints, kSkipMirror) == "true");
    std::set<std::string> kept;
    if (wanted) {
      json::object labels = labels_of(*endpoints);
      labels[kServiceName] = name;
      labels[kManagedBy] = kOfEndpoints;
      const json::object owner = owner_reference(*endpoints, "v1", "Endpoints");
      for (MirroredSlice& slice : slices_of_endpoints(body_of(*endpoints))) {
        // Those with other ports have names of their own, whichever of them come and go.
        const std::string slice_of =
            slice_name(*endpoints, kept.empty() ? std::string(kOfEndpoints) : kOfEndpoints + slice.key());
        if (kept.insert(slice_of).second)
          keep(view, now, out, kSlices, ns, slice_of, labels, &owner,
               {{"addressType", slice.address_type},
                {"endpoints", std::move(slice.endpoints)},
                {"ports", std::move(slice.ports)}});
      }
    }
    remove_slices_but(view, ns, name, kOfEndpoints, kept, out);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> endpoint_controller() { return std::make_shared<EndpointController>(); }

}  // namespace lockstep::kube
