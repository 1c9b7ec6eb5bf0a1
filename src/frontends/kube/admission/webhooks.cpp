#include "frontends/kube/admission/webhooks.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/cel/functions.h"
#include "frontends/kube/cel/program.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr const char* kMutating = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
constexpr const char* kValidating = "validatingwebhookconfigurations.admissionregistration.k8s.io";
constexpr const char* kReviewVersion = "admission.k8s.io/v1";
constexpr std::int64_t kConditionCostMax = 1'000'000;
constexpr std::int64_t kTimeoutStandard = 10, kTimeoutMax = 30;

template <class Visit>
void each_object(const Tables& tables, const std::string& type, Visit visit) {
  for (auto at = tables.objects.lower_bound({type, "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == type; ++at)
    visit(*at->second);
}

std::vector<cel::Variable> names_of_conditions() {
  std::vector<cel::Variable> out;
  for (const char* name : {"object", "oldObject", "request"}) out.push_back({name, cel::simple_type("dyn")});
  return out;
}

json::value tree_or_null(const json::object* tree) { return tree ? json::value(*tree) : json::value(); }

json::value with_kind(const json::object* tree, const AdmissionAttempt& attempt) {
  if (!tree)
    return nullptr;
  json::object out{{"kind", attempt.kind},
                   {"apiVersion", attempt.group.empty() ? attempt.version : attempt.group + "/" + attempt.version}};
  for (const auto& [key, value] : *tree)
    if (key != "kind" && key != "apiVersion")
      out[key] = value;
  return out;
}

// --- where they are ---

bool is_plain(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](const char c) { return c > ' ' && c < 127; });
}

Result<WebhookTarget> target_of_url(const std::string& url) {
  constexpr std::string_view kHttps = "https://";
  WebhookTarget out;
  out.url = url;
  if (!is_plain(url) || !url.starts_with(kHttps))
    return invalid("its URL is none of https");
  std::string_view rest = std::string_view(url).substr(kHttps.size());
  const auto slash = rest.find('/');
  std::string_view host = rest.substr(0, slash);
  out.path = slash == rest.npos ? "/" : std::string(rest.substr(slash));
  if (const auto colon = host.rfind(':'); colon != host.npos && host.find(']', colon) == host.npos) {
    const auto port = parse_uint(host.substr(colon + 1));
    if (!port || *port == 0 || *port > 65535)
      return invalid("its URL has no port that can be");
    out.port = static_cast<std::uint16_t>(*port);
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  if (host.empty())
    return invalid("its URL has no host");
  out.address = out.server_name = std::string(host);
  return out;
}

struct Endpoint {
  std::string address;
  std::int64_t port = 0;
  std::string pod_ns, pod;
};

// The first endpoint that is ready.
std::optional<Endpoint> endpoint_of(const Tables& tables, const std::string& ns, const std::string& service,
                                    const std::string& port_name) {
  std::optional<Endpoint> out;
  const std::string type = "endpointslices.discovery.k8s.io";
  for (auto at = tables.objects.lower_bound({type, ns, ""});
       !out && at != tables.objects.end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns; ++at) {
    const Object& slice = *at->second;
    const bool ours = slice.meta.extra && std::ranges::any_of(slice.meta.extra->labels, [&](const auto& label) {
                        return label.first == "kubernetes.io/service-name" && label.second == service;
                      });
    if (!ours)
      continue;
    const json::value body = parse_own(slice.body.get());
    std::optional<std::int64_t> number;
    for (const json::value& port : list_in(body, "ports"))
      if (text_in(port, "name") == port_name)
        number = integer_in(port, "port");
    for (const json::value& one : list_in(body, "endpoints")) {
      const json::value& ready = part(part(one, "conditions"), "ready");
      const auto addresses = texts_in(one, "addresses");
      if (number && !addresses.empty() && (!ready.is_bool() || ready.get_bool())) {
        const json::value& target = part(one, "targetRef");
        out = Endpoint{addresses.front(), *number, "", ""};
        if (text_in(target, "kind") == "Pod") {
          out->pod_ns = text_in(target, "namespace").empty() ? ns : text_in(target, "namespace");
          out->pod = text_in(target, "name");
        }
        break;
      }
    }
  }
  return out;
}

}  // namespace

Result<WebhookTarget> target_of_service(const Tables& tables, const json::value& said) {
  const std::string ns = text_in(said, "namespace"), name = text_in(said, "name");
  const std::int64_t port = integer_in(said, "port").value_or(443);
  WebhookTarget out;
  out.server_name = format("{}.{}.svc", name, ns);
  out.path = text_in(said, "path");
  if (!out.path.starts_with('/'))
    out.path = "/" + out.path;
  out.url = format("https://{}:{}{}", out.server_name, port, out.path);
  if (!is_plain(out.url))
    return invalid("its Service's name or path cannot be");
  const auto at = tables.objects.find({"services", ns, name});
  if (at == tables.objects.end())
    return not_found(format("service \"{}\" not found", name));
  const json::value service = parse_own(at->second->body.get());
  for (const json::value& one : list_in(part(service, "spec"), "ports")) {
    if (integer_in(one, "port") != port)
      continue;
    const auto endpoint = endpoint_of(tables, ns, name, text_in(one, "name"));
    if (!endpoint || endpoint->port <= 0 || endpoint->port > 65535)
      return Error{Errc::kUnavailable, format("no endpoints available for service \"{}\"", name), {}};
    out.address = endpoint->address;
    out.port = static_cast<std::uint16_t>(endpoint->port);
    out.pod_ns = endpoint->pod_ns;
    out.pod = endpoint->pod;
    return out;
  }
  return not_found(format("no service port {} found for service \"{}\"", port, name));
}

bool Webhook::fails_closed() const { return text_in(spec, "failurePolicy") != "Ignore"; }
bool Webhook::asks_again() const { return text_in(spec, "reinvocationPolicy") == "IfNeeded"; }
bool Webhook::is_safe_to_try() const {
  const std::string effects = text_in(spec, "sideEffects");
  return effects == "None" || effects == "NoneOnDryRun";
}
std::int64_t Webhook::timeout_s() const {
  return std::clamp<std::int64_t>(integer_in(spec, "timeoutSeconds").value_or(kTimeoutStandard), 1, kTimeoutMax);
}

bool has_webhooks(const Tables& tables) {
  for (const std::string type : {kMutating, kValidating})
    if (const auto at = tables.objects.lower_bound({type, "", ""});
        at != tables.objects.end() && std::get<0>(at->first) == type)
      return true;
  return false;
}

namespace {

// The form in which rules name the objects: the request's own, where one does, else the first other one. Nothing: none
// takes them in.
std::optional<ObjectForm> named_form(const json::value& webhook, const AdmissionAttempt& attempt,
                                     const std::vector<AdmissionAttempt>& in_other_forms) {
  const json::array& rules = list_in(webhook, "rules");
  const auto named = [&](const json::value& rule, const AdmissionAttempt& as) {
    return rule_takes_in(rule, as, /*any_version=*/false);
  };
  if (std::ranges::any_of(rules, [&](const json::value& rule) { return named(rule, attempt); }))
    return attempt.form();
  if (text_in(webhook, "matchPolicy") == "Exact")
    return std::nullopt;
  for (const json::value& rule : rules)
    for (const AdmissionAttempt& other : in_other_forms)
      if (named(rule, other))
        return other.form();
  return std::nullopt;
}

}  // namespace

std::vector<Webhook> webhooks_for(const Tables& tables, Webhook::Sort sort, const AdmissionAttempt& attempt) {
  std::vector<Webhook> out;
  if (is_exempt(attempt))
    return out;
  std::vector<AdmissionAttempt> others;
  for (const ObjectForm& form : attempt.others) others.push_back(attempt.in_form(form, attempt.object, attempt.old));
  each_object(tables, sort == Webhook::Sort::kMutating ? kMutating : kValidating, [&](const Object& configuration) {
    const json::value body = parse_own(configuration.body.get());
    for (const json::value& one : list_in(body, "webhooks")) {
      auto form = named_form(one, attempt, others);
      if (form && takes_in(tables, one, attempt))
        out.push_back({sort, text_in(one, "name"), configuration.meta.name, one, std::move(*form)});
    }
  });
  return out;
}

Answered<bool> conditions_hold(const Webhook& webhook, const AdmissionAttempt& attempt) {
  const json::array& conditions = list_in(webhook.spec, "matchConditions");
  if (conditions.empty())
    return true;
  const json::value object = tree_or_null(attempt.object), old = tree_or_null(attempt.old),
                    request(request_tree(attempt));
  cel::Budget budget(kConditionCostMax);
  std::string fault;
  for (const json::value& one : conditions) {
    const auto program = cel::compile(text_in(one, "expression"), names_of_conditions());
    const cel::Value holds = program.ok()
                                 ? program->evaluate({cel::from_json(object, nullptr), cel::from_json(old, nullptr),
                                                      cel::from_json(request, nullptr)},
                                                     budget)
                                 : cel::Value::fault(program.error().message);
    if (holds.as<bool>() && !holds.is_true())
      return false;
    if (const auto* failed = holds.part<cel::Fault>(); failed && fault.empty())
      fault = format("expression '{}' resulted in error: {}", text_in(one, "expression"), failed->message);
  }
  if (fault.empty())
    return true;
  if (!webhook.fails_closed())
    return false;
  return Status::forbidden(attempt.resource_name(), attempt.name, fault);
}

Result<WebhookTarget> target_of(const Tables& tables, const Webhook& webhook) {
  const json::value& client = part(webhook.spec, "clientConfig");
  WebhookTarget out;
  if (const std::string url = text_in(client, "url"); !url.empty())
    out = TRY(target_of_url(url));
  else
    out = TRY(target_of_service(tables, part(client, "service")));
  if (const std::string bundle = text_in(client, "caBundle"); !bundle.empty())
    out.ca_pem = bytes_of_base64(bundle).value_or("");
  out.path += format("{}timeout={}s", out.path.find('?') == out.path.npos ? "?" : "&", webhook.timeout_s());
  out.url += format("{}timeout={}s", out.url.find('?') == out.url.npos ? "?" : "&", webhook.timeout_s());
  return out;
}

std::string review_text(const AdmissionAttempt& attempt, const std::string& uid) {
  json::object request{{"uid", uid}};
  for (const auto& [key, value] : request_tree(attempt)) request[key] = value;
  request["object"] = with_kind(attempt.object, attempt);
  request["oldObject"] = with_kind(attempt.old, attempt);
  return json::serialize(
      json::object{{"kind", "AdmissionReview"}, {"apiVersion", kReviewVersion}, {"request", std::move(request)}});
}

Result<WebhookReply> read_reply(const Webhook& webhook, std::string_view body, const std::string& uid) {
  const auto parsed = parse_given(body);
  if (!parsed.ok())
    return invalid("its answer is no JSON: " + parsed.error().message);
  const json::value& review = *parsed;
  const json::value& response = part(review, "response");
  if (text_in(review, "kind") != "AdmissionReview" || text_in(review, "apiVersion") != kReviewVersion ||
      !response.is_object())
    return invalid(format("expected webhook response of {}, Kind=AdmissionReview", kReviewVersion));
  if (text_in(response, "uid") != uid)
    return invalid(format("expected response.uid=\"{}\", got \"{}\"", uid, text_in(response, "uid")));
  WebhookReply out;
  out.warnings = texts_in(response, "warnings");
  if (!flag_in(response, "allowed")) {
    const json::value& said = part(response, "status");
    std::string message = format("admission webhook \"{}\" denied the request", webhook.name);
    const std::string why = text_in(said, "message"), reason = text_in(said, "reason");
    message += !why.empty() ? ": " + why : !reason.empty() ? ": " + reason : " without explanation";
    Status status = Status::bad_request(std::move(message));
    status.reason = reason;
    const auto code = integer_in(said, "code").value_or(0);
    status.code = code >= 400 && code < 600 ? static_cast<int>(code) : 400;
    out.refused = std::move(status);
    return out;
  }
  const std::string patch = text_in(response, "patch");
  if (patch.empty())
    return out;
  if (webhook.sort == Webhook::Sort::kValidating)
    return invalid("validating webhook may not return response.patch");
  if (text_in(response, "patchType") != "JSONPatch")
    return invalid(format("unsupported patch type \"{}\"", text_in(response, "patchType")));
  const auto bytes = bytes_of_base64(patch);
  if (!bytes)
    return invalid("its patch is no base64");
  auto patch_given = parse_given(*bytes);
  if (!patch_given.ok())
    return invalid("its patch is no JSON: " + patch_given.error().message);
  out.patch = std::move(*patch_given);
  return out;
}

Status call_failed(const Webhook& webhook, const std::string& url, std::string_view why) {
  return Status::internal(
      url.empty()
          ? format("failed calling webhook \"{}\": failed to call webhook: {}", webhook.name, why)
          : format("failed calling webhook \"{}\": failed to call webhook: Post \"{}\": {}", webhook.name, url, why));
}

std::vector<Cause> expression_faults(std::string_view type, const json::object& tree) {
  std::vector<Cause> out;
  if (type != kMutating && type != kValidating)
    return out;
  std::size_t n = 0;
  for (const json::value& webhook : list_in(tree, "webhooks")) {
    std::size_t m = 0;
    for (const json::value& one : list_in(webhook, "matchConditions")) {
      const std::string text = text_in(one, "expression");
      const std::string where = format("webhooks[{}].matchConditions[{}].expression", n, m++);
      const auto program = cel::compile(text, names_of_conditions());
      if (!program.ok())
        out.push_back({"FieldValueInvalid",
                       format("Invalid value: {}: compilation failed: {}", json::serialize(json::string_view(text)),
                              program.error().message),
                       where});
      else if (program->result()->name != "bool" && program->result()->name != "dyn")
        out.push_back({"FieldValueInvalid",
                       format("Invalid value: {}: must evaluate to bool", json::serialize(json::string_view(text))),
                       where});
    }
    ++n;
  }
  return out;
}

}  // namespace lockstep::kube
