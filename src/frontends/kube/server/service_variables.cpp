#include "frontends/kube/server/service_variables.h"

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

std::string variable_name(std::string text) {
  for (char& c : text) c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// Nothing is told of ports beyond those that are too long together already.
void add_service(Variables& out, const Object& service, std::size_t& bytes) {
  const json::value body = parse_own(service.body.get());
  const json::value& spec = part(body, "spec");
  const std::string ip = text_in(spec, "clusterIP");
  const json::array& ports = list_in(spec, "ports");
  if (ip.empty() || ip == "None" || ports.empty())
    return;
  const std::string name = variable_name(service.meta.name);
  const std::string host = ip.find(':') == ip.npos ? ip : "[" + ip + "]";
  bool first = true;
  const auto put = [&](std::string its, std::string value) {
    bytes += its.size() + value.size();
    out.insert_or_assign(std::move(its), std::move(value));
  };
  for (const json::value& one : ports) {
    if (bytes > ServiceVariables::kOfSpaceMax)
      return;
    const std::int64_t port = integer_in(one, "port").value_or(0);
    const std::string protocol = text_in(one, "protocol").empty() ? "TCP" : text_in(one, "protocol");
    const std::string url = format("{}://{}:{}", lower(protocol), host, port);
    if (first) {
      put(name + "_SERVICE_HOST", ip);
      put(name + "_SERVICE_PORT", std::to_string(port));
      put(name + "_PORT", url);
    }
    first = false;
    if (const std::string its = text_in(one, "name"); !its.empty())
      put(format("{}_SERVICE_PORT_{}", name, variable_name(its)), std::to_string(port));
    const std::string link = format("{}_PORT_{}_{}", name, port, protocol);
    put(link, url);
    put(link + "_PROTO", lower(protocol));
    put(link + "_PORT", std::to_string(port));
    put(link + "_ADDR", ip);
  }
}

void name_api(Variables& out, const std::string& address) {
  const auto host = address.find("://"), colon = address.rfind(':');
  if (address.empty() || host == address.npos || colon <= host + 3)
    return;
  out["KUBERNETES_SERVICE_HOST"] = address.substr(host + 3, colon - host - 3);
  for (const char* port : {"KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS"})
    out[port] = address.substr(colon + 1);
}

}  // namespace

void ServiceVariables::begin(const Tables& tables) {
  for (auto at = tables.objects.lower_bound({std::string(kServices), "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == kServices; ++at)
    look(*at->second, true);
}

void ServiceVariables::change(const Tables& /*before*/, const Change& change) {
  if (const auto* object = std::get_if<Ref<Object>>(&change.record); object && (*object)->type == kServices)
    look(**object, !change.removed);
}

void ServiceVariables::look(const Object& service, bool there) {
  OfSpace& space = spaces_[service.meta.ns];
  if (const auto known = space.services.find(service.meta.name); known != space.services.end()) {
    space.bytes -= known->second.bytes;
    space.services.erase(known);
  }
  if (there) {
    auto all = std::make_shared<Variables>();
    std::size_t bytes = 0;
    add_service(*all, service, bytes);
    space.bytes += bytes;
    space.services[service.meta.name] = {bytes > kOfSpaceMax ? nullptr : std::move(all), bytes};
  }
  if (space.services.empty())
    spaces_.erase(service.meta.ns);
}

bool ServiceVariables::are_too_long(const std::string& ns) const {
  const auto space = spaces_.find(ns);
  return space != spaces_.end() && space->second.bytes > kOfSpaceMax;
}

Variables ServiceVariables::of(const std::string& ns, bool all, const std::string& api_address) const {
  Variables out;
  if (const auto space = spaces_.find(ns); all && space != spaces_.end() && !are_too_long(ns))
    for (const auto& [name, one] : space->second.services) out.insert(one.all->begin(), one.all->end());
  if (const auto space = spaces_.find("default"); space != spaces_.end())
    if (const auto api = space->second.services.find("kubernetes");
        api != space->second.services.end() && api->second.all)
      for (const auto& [name, value] : *api->second.all) out[name] = value;
  name_api(out, api_address);
  return out;
}

}  // namespace lockstep::kube
