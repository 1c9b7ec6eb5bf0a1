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

void add_service(Variables& out, const Object& service) {
  const json::value body = parse_own(service.body.get());
  const json::value& spec = part(body, "spec");
  const std::string ip = text_in(spec, "clusterIP");
  const json::array& ports = list_in(spec, "ports");
  if (ip.empty() || ip == "None" || ports.empty())
    return;
  const std::string name = variable_name(service.meta.name);
  const std::string host = ip.find(':') == ip.npos ? ip : "[" + ip + "]";
  bool first = true;
  for (const json::value& one : ports) {
    const std::int64_t port = integer_in(one, "port").value_or(0);
    const std::string protocol = text_in(one, "protocol").empty() ? "TCP" : text_in(one, "protocol");
    const std::string url = format("{}://{}:{}", lower(protocol), host, port);
    if (first) {
      out[name + "_SERVICE_HOST"] = ip;
      out[name + "_SERVICE_PORT"] = std::to_string(port);
      out[name + "_PORT"] = url;
    }
    first = false;
    if (const std::string its = text_in(one, "name"); !its.empty())
      out[format("{}_SERVICE_PORT_{}", name, variable_name(its))] = std::to_string(port);
    const std::string link = format("{}_PORT_{}_{}", name, port, protocol);
    out[link] = url;
    out[link + "_PROTO"] = lower(protocol);
    out[link + "_PORT"] = std::to_string(port);
    out[link + "_ADDR"] = ip;
  }
}

void set_api(Variables& out, const Tables& tables, const std::string& address) {
  if (const auto api = tables.objects.find({std::string(kServices), "default", "kubernetes"});
      api != tables.objects.end())
    add_service(out, *api->second);
  if (address.empty())
    return;
  const auto host = address.find("://"), colon = address.rfind(':');
  if (host == address.npos || colon <= host + 3)
    return;
  out["KUBERNETES_SERVICE_HOST"] = address.substr(host + 3, colon - host - 3);
  for (const char* port : {"KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS"})
    out[port] = address.substr(colon + 1);
}

}  // namespace

Variables service_variables(const Tables& tables, const std::string& ns, bool all, const std::string& api_address) {
  Variables out;
  if (!all) {
    set_api(out, tables, api_address);
    return out;
  }
  for (auto at = tables.objects.lower_bound({std::string(kServices), ns, ""});
       at != tables.objects.end() && std::get<0>(at->first) == kServices && std::get<1>(at->first) == ns; ++at)
    add_service(out, *at->second);
  set_api(out, tables, api_address);
  return out;
}

}  // namespace lockstep::kube
