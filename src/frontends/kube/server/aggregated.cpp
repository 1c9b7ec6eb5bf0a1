#include "frontends/kube/server/aggregated.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kApiServices = "apiservices.apiregistration.k8s.io";
constexpr Duration kAskEvery = seconds(30);  // one that answers
constexpr Duration kAskAgain = seconds(2);   // one that does not
constexpr Duration kAskPatience = seconds(5);
constexpr std::size_t kListMax = 1 << 20;    // bytes of what a server says it serves
constexpr std::size_t kResourcesMax = 1000;  // of one API
constexpr std::size_t kApisMax = 500;        // that are asked; more are passed on, and not asked

std::string type_of_aggregated(const AggregatedApi& api, const std::string& plural) {
  return format("aggregated/{}/{}", api.name, plural);
}

KubeUser aggregator() { return {"system:kube-aggregator", "", {std::string(kMasters)}, {}}; }

}  // namespace

const AggregatedApi* AggregatedApis::find(std::string_view group, std::string_view version) const {
  if (apis_.empty())
    return nullptr;
  const auto at = apis_.find({std::string(group), std::string(version)});
  return at == apis_.end() ? nullptr : &at->second;
}

Result<WebhookTarget> AggregatedApis::place_of(const Tables& tables, const AggregatedApi& api) {
  WebhookTarget out = TRY(target_of_service(tables, api.service));
  out.ca_pem = api.ca_pem;
  return out;
}

void AggregatedApis::begin(const Tables& tables) {
  for (auto at = tables.objects.lower_bound({std::string(kApiServices), "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == kApiServices; ++at)
    take(*at->second, true);
}

void AggregatedApis::change(const Tables&, const Change& change) {
  const auto* object = std::get_if<Ref<Object>>(&change.record);
  if (!object)
    return;
  if ((*object)->type == kApiServices)
    take(**object, !change.removed);
  else if (!apis_.empty() && ((*object)->type == "endpointslices.discovery.k8s.io" || (*object)->type == "services"))
    look_soon();
}

void AggregatedApis::meet(const std::shared_ptr<FrontHands>& hands) {
  hands_ = hands;
  if (!apis_.empty())
    look_soon();
}

void AggregatedApis::take(const Object& object, bool there) {
  const json::value body = parse_own(object.body.get());
  const json::value& spec = part(body, "spec");
  const std::pair<std::string, std::string> key{text_in(spec, "group"), text_in(spec, "version")};
  const auto known = apis_.find(key);
  const bool ours = there && part(spec, "service").is_object();
  if (!ours) {
    if (known == apis_.end() || known->second.name != object.meta.name)
      return;
    for (const Kinds::Ref& kind : std::vector<Kinds::Ref>(kinds_.all()))
      if (kind->type.starts_with(format("aggregated/{}/", object.meta.name)))
        kinds_.remove_type(kind->type);
    asking_.erase(object.meta.name);
    served_.erase(object.meta.name);
    apis_.erase(known);
    return;
  }
  AggregatedApi& api = apis_[key];
  const json::value before = std::exchange(api.service, part(spec, "service"));
  api.name = object.meta.name;
  api.group = key.first;
  api.version = key.second;
  api.anybody = flag_in(spec, "insecureSkipTLSVerify");
  api.ca_pem = bytes_of_base64(text_in(spec, "caBundle")).value_or("");
  api.available = false;
  for (const json::value& one : list_in(part(body, "status"), "conditions"))
    if (text_in(one, "type") == "Available")
      api.available = text_in(one, "status") == "True";
  if (known == apis_.end() || before != api.service)
    look_soon();
}

// A change of endpoints is often followed by another one.
void AggregatedApis::look_soon() {
  if (!hands_ || std::exchange(looking_, true))
    return;
  hands_->after(millis(100), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->looking_ = false;
      self->look();
    }
  });
}

void AggregatedApis::look() {
  std::size_t asked = 0;
  for (auto& [key, api] : apis_)
    if (!api.asked && ++asked <= kApisMax)
      ask(api);
}

void AggregatedApis::ask(AggregatedApi& api) {
  api.asked = true;
  const std::uint64_t number = ++api.asks;
  const std::string name = api.name;
  const auto later = [weak = weak_from_this(), name, number](const Result<std::string>& list, const char* reason) {
    const auto self = weak.lock();
    if (!self)
      return;
    for (const auto& [key, known] : self->apis_)
      if (known.name == name && known.asks == number)
        return self->answered(name, list, reason);
  };
  const std::string ns = text_in(api.service, "namespace"), service = text_in(api.service, "name");
  if (!hands_->tables().objects.contains({"services", ns, service}))
    return later(not_found(format("service/{} in \"{}\" is not present", service, ns)), "ServiceNotFound");
  const auto target = place_of(hands_->tables(), api);
  if (!target.ok())
    return later(Error{target.error().code,
                       format("endpoints for service/{} in \"{}\" have no addresses with port name \"\"", service, ns),
                       {}},
                 "MissingEndpoints");
  const std::string path = format("/apis/{}/{}", api.group, api.version);
  const std::string url = format("https://{}:{}{}", target->address, target->port, path);
  const auto hands = hands_;
  reach_target(
      hands->tables(), *target,
      [hands](const ContainerAsk& what, std::function<void(Result<std::unique_ptr<Stream>>)> then) {
        hands->reach(what, std::move(then));
      },
      [this, name, later, url, path, target = *target, anybody = api.anybody](Result<std::shared_ptr<Stream>> through) {
        const auto failed = [later, url](const std::string& why) {
          later(Error{Errc::kUnavailable, format("failing or missing response from {}: {}", url, why), {}},
                "FailedDiscoveryCheck");
        };
        if (!through.ok() || !passes_on_)
          return failed(through.ok() ? "nothing is passed on here" : through.error().message);
        HttpRequest http;
        http.method = "GET";
        http.path = path;
        http.headers["accept"] = "application/json";
        struct Heard {
          int status = 0;
          std::string body;
        };
        const auto heard = std::make_shared<Heard>();
        asking_[name] =
            passes_on_({.address = target.address,
                        .port = target.port,
                        .server_name = target.server_name,
                        .ca_pem = target.ca_pem,
                        .anybody = anybody,
                        .method = "GET",
                        .head = passed_head(http, aggregator(), target.server_name),
                        .patience = kAskPatience,
                        .through = std::move(*through)},
                       {.head = [heard](int status, const auto&) { heard->status = status; },
                        .body =
                            [heard](std::string_view bytes) {
                              if (heard->body.size() <= kListMax)
                                heard->body.append(bytes);
                            },
                        .end =
                            [heard, later, failed, url](const Result<void>& how) {
                              if (!how.ok())
                                return failed(format("Get \"{}\": {}", url, how.error().message));
                              if (heard->status < 200 || heard->status > 299 || heard->body.size() > kListMax)
                                return failed(format("bad status from {}: {}", url, heard->status));
                              later(heard->body, "Passed");
                            }});
      });
}

void AggregatedApis::answered(const std::string& name, const Result<std::string>& list, const char* reason) {
  AggregatedApi* api = nullptr;
  for (auto& [key, one] : apis_)
    if (one.name == name)
      api = &one;
  if (!api)
    return;
  tell(*api, list.ok(), reason, list.ok() ? "all checks passed" : list.error().message);
  if (list.ok())
    serve(*api, *list);
  hands_->after(list.ok() ? kAskEvery : kAskAgain, [weak = weak_from_this(), name] {
    const auto self = weak.lock();
    if (!self)
      return;
    for (auto& [key, one] : self->apis_)
      if (one.name == name)
        one.asked = false;
    self->look();
  });
}

// What it serves stands among our own kinds, for discovery; its requests are passed on before those are looked at.
void AggregatedApis::serve(const AggregatedApi& api, const std::string& list) {
  if (served_[api.name] == list)
    return;
  served_[api.name] = list;
  for (const Kinds::Ref& kind : std::vector<Kinds::Ref>(kinds_.all()))
    if (kind->type.starts_with(format("aggregated/{}/", api.name)))
      kinds_.remove_type(kind->type);
  const auto parsed = parse_given(list);
  if (!parsed.ok())
    return;
  const json::value& said = *parsed;
  std::map<std::string, Kind> kinds;
  std::size_t count = 0;
  for (const json::value& one : list_in(said, "resources")) {
    if (++count > kResourcesMax)
      break;
    const std::string name = text_in(one, "name");
    const auto slash = name.find('/');
    Kind& kind = kinds[name.substr(0, slash)];
    if (slash != name.npos) {
      const std::string group = text_in(one, "group"), version = text_in(one, "version");
      kind.subresources.push_back({name.substr(slash + 1), group.empty() ? api.group : group,
                                   version.empty() ? api.version : version, text_in(one, "kind"),
                                   texts_in(one, "verbs")});
      continue;
    }
    kind.group = api.group;
    kind.version = api.version;
    kind.kind = text_in(one, "kind");
    kind.plural = name;
    kind.singular = text_in(one, "singularName");
    kind.short_names = texts_in(one, "shortNames");
    kind.categories = texts_in(one, "categories");
    kind.namespaced = flag_in(one, "namespaced");
    kind.verbs = texts_in(one, "verbs");
    std::ranges::sort(kind.verbs);
    kind.list_kind = kind.kind + "List";
    kind.storage_hash = text_in(one, "storageVersionHash");
    kind.type = type_of_aggregated(api, name);
  }
  for (auto& [name, kind] : kinds)
    if (!kind.plural.empty())
      kinds_.put(std::move(kind));
}

void AggregatedApis::tell(const AggregatedApi& api, bool available, const char* reason, const std::string& message) {
  const auto at = hands_->tables().objects.find({std::string(kApiServices), "", api.name});
  if (at == hands_->tables().objects.end())
    return;
  const Object& before = *at->second;
  json::value body = parse_own(before.body.get());
  json::value& status = body.as_object()["status"];
  if (!status.is_object())
    status.emplace_object();
  json::object wanted{{"type", "Available"},
                      {"status", available ? "True" : "False"},
                      {"lastTransitionTime", time_text(hands_->now(), hands_->wall_offset())},
                      {"reason", reason},
                      {"message", message}};
  json::array conditions;
  for (const json::value& one : list_in(status, "conditions")) {
    if (text_in(one, "type") != "Available") {
      conditions.push_back(one);
      continue;
    }
    if (text_in(one, "status") == text_of(wanted["status"])) {
      if (text_in(one, "reason") == reason && text_in(one, "message") == message)
        return;
      wanted["lastTransitionTime"] = text_in(one, "lastTransitionTime");
    }
  }
  conditions.push_back(std::move(wanted));
  status.get_object()["conditions"] = std::move(conditions);
  Object changed = before;
  changed.body = json::serialize(body);
  hands_->commit({PutObject{std::move(changed), before.meta.seq}}, {}, [](const Result<Answer>&) {});
}

}  // namespace lockstep::kube
