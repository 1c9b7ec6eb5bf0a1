#include "frontends/kube/server/account_tokens.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/body.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kLifeDefault = 3600, kLifeLeast = 600, kLifeMost = std::int64_t{1} << 32;
constexpr std::string_view kAccounts = "serviceaccounts";

Ref<Object> find(const Tables& tables, std::string_view type, std::string_view ns, std::string_view name) {
  const auto at = tables.objects.find({std::string(type), std::string(ns), std::string(name)});
  return at == tables.objects.end() ? nullptr : at->second;
}

std::int64_t number_at(const json::value& value, std::string_view name, std::int64_t otherwise) {
  const json::value* number = member(value, name);
  if (!number || !is_number(*number))
    return otherwise;
  return static_cast<std::int64_t>(number_of(*number));
}

// The object that the claims bind the token to is still the same one.
bool still_there(const Tables& tables, const json::value& claims, const std::string& ns) {
  const json::value* ours = member(claims, "kubernetes.io");
  // A pod's token is as good as its pod: the node that it names beside is said, not judged, for it may be made anew.
  const bool of_pod = ours && member(*ours, "pod");
  for (const auto& [word, type] : {std::pair{"pod", "pods"}, {"secret", "secrets"}, {"node", "nodes"}})
    if (const json::value* bound = ours ? member(*ours, word) : nullptr;
        bound && !(of_pod && std::string_view(word) == "node")) {
      const auto object = find(tables, type, std::string_view(word) == "node" ? "" : ns, text_in(*bound, "name"));
      if (!object || uid_text(object->meta.uid) != text_in(*bound, "uid"))
        return false;
    }
  return true;
}

}  // namespace

std::optional<TokenHolder> holder_of(const TokenPowers& powers, const Tables& tables, std::string_view token,
                                     std::int64_t now_s) {
  const auto text = powers.verify(token);
  if (!text)
    return std::nullopt;
  boost::system::error_code failed;
  const json::value claims = json::parse(*text, failed);
  const json::value* ours = failed ? nullptr : member(claims, "kubernetes.io");
  const json::value* account = ours ? member(*ours, "serviceaccount") : nullptr;
  if (!account || number_at(claims, "exp", 0) <= now_s)
    return std::nullopt;
  const std::string ns = text_in(*ours, "namespace"), name = text_in(*account, "name"), uid = text_in(*account, "uid");
  const auto object = find(tables, kAccounts, ns, name);
  if (!object || uid_text(object->meta.uid) != uid || !still_there(tables, claims, ns))
    return std::nullopt;
  TokenHolder out;
  out.user.name = format("{}{}:{}", kAccountUser, ns, name);
  out.user.uid = uid;
  out.user.groups = {std::string(kAccountGroup), format("{}:{}", kAccountGroup, ns), std::string(kAuthenticated)};
  out.user.extra["authentication.kubernetes.io/credential-id"] = {"JTI=" + text_in(claims, "jti")};
  for (const std::string word : {"pod", "node"})
    if (const json::value* bound = member(*ours, word))
      for (const char* what : {"name", "uid"})
        out.user.extra[format("authentication.kubernetes.io/{}-{}", word, what)] = {text_in(*bound, what)};
  if (const json::array* audiences = member_array(claims, "aud"))
    for (const json::value& one : *audiences) out.audiences.emplace_back(text_of(one));
  return out;
}

std::string subject_of(std::string_view claims) {
  boost::system::error_code failed;
  const json::value read = json::parse(json::string_view(claims.data(), claims.size()), failed);
  return failed ? std::string() : text_in(read, "sub");
}

std::optional<HttpResponse> answer_issuer(std::string_view path, const TokenPowers& powers) {
  constexpr std::string_view kKeys = "/openid/v1/jwks";
  if (path.ends_with('/'))
    path.remove_suffix(1);
  if (path == kKeys)
    return HttpResponse{200, "application/jwk-set+json", powers.key_set(), {}};
  if (path != "/.well-known/openid-configuration")
    return std::nullopt;
  const json::object said{{"issuer", kIssuer},
                          {"jwks_uri", format("{}{}", kIssuer, kKeys)},
                          {"response_types_supported", json::array{"id_token"}},
                          {"subject_types_supported", json::array{"public"}},
                          {"id_token_signing_alg_values_supported", json::array{"ES256"}}};
  return HttpResponse{200, "application/json", json::serialize(said), {}};
}

namespace {

void answer_token(const Asked& request, const TokenPowers& powers, const std::string& token_id,
                  const json::object& body) {
  const auto account = find_object(*request);
  if (!account)
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  const json::value* spec = body.if_contains("spec");
  const auto reading = request->visit->read();
  const std::int64_t now = (reading->now + reading->wall_offset).us / 1'000'000;
  const std::int64_t life = spec ? number_at(*spec, "expirationSeconds", kLifeDefault) : kLifeDefault;
  if (life < kLifeLeast || life > kLifeMost)
    return answer_status(
        *request, Status::invalid({"authentication.k8s.io", "TokenRequest"}, request->target.name,
                                  {{"FieldValueInvalid",
                                    format("Invalid value: {}: {}", life,
                                           life < kLifeLeast ? "may not specify a duration less than 10 minutes"
                                                             : "may not specify a duration larger than 2^32 seconds"),
                                    "spec.expirationSeconds"}}));
  json::array audiences;
  if (const json::array* asked = spec ? member_array(*spec, "audiences") : nullptr)
    audiences = *asked;
  if (audiences.empty())
    audiences.emplace_back(kIssuer);
  json::object ours{{"namespace", account->meta.ns.get()},
                    {"serviceaccount", {{"name", account->meta.name}, {"uid", uid_text(account->meta.uid)}}}};
  if (const json::value* bound = spec ? member(*spec, "boundObjectRef") : nullptr; bound && bound->is_object()) {
    const std::string kind = text_in(*bound, "kind"), name = text_in(*bound, "name"), uid = text_in(*bound, "uid");
    const std::string word = lower(kind), type = word + "s";
    if (kind != "Pod" && kind != "Secret" && kind != "Node")
      return answer_status(
          *request, Status::bad_request(format("cannot bind token for serviceaccount to object of type {}", kind)));
    const auto object = find(reading->tables, type, kind == "Node" ? "" : account->meta.ns.get(), name);
    if (!object)
      return answer_status(*request, Status::not_found({"", type}, name));
    if (!uid.empty() && uid != uid_text(object->meta.uid))
      return answer_status(
          *request,
          Status::conflict({"", type}, name,
                           format("the UID in the bound object reference ({}) does not match the UID in record. The "
                                  "object might have been deleted and then recreated",
                                  uid)));
    ours[word] = {{"name", name}, {"uid", uid_text(object->meta.uid)}};
  }
  json::object claims{
      {"aud", audiences}, {"exp", now + life},
      {"iat", now},       {"iss", kIssuer},
      {"jti", token_id},  {"kubernetes.io", std::move(ours)},
      {"nbf", now},       {"sub", format("{}{}:{}", kAccountUser, account->meta.ns.get(), account->meta.name)}};
  json::object out{{"kind", "TokenRequest"},
                   {"apiVersion", "authentication.k8s.io/v1"},
                   {"metadata", {{"name", account->meta.name}, {"namespace", account->meta.ns.get()}}}};
  json::object shown = spec && spec->is_object() ? spec->get_object() : json::object();
  shown["audiences"] = audiences;
  shown["expirationSeconds"] = life;
  out["spec"] = std::move(shown);
  out["status"] = {{"token", powers.sign(json::serialize(claims))},
                   {"expirationTimestamp", time_text(Instant{(now + life) * 1'000'000}, {})}};
  answer_tree(*request, out, 201);
}

}  // namespace

void create_token(const Asked& request, const TokenPowers& powers, const std::string& token_id) {
  if (!find_object(*request))
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  if (request->http().body.empty())
    return answer_token(request, powers, token_id, {});
  read_body_then(request, [request, powers, token_id](const json::object& body) {
    answer_token(request, powers, token_id, body);
  });
}

}  // namespace lockstep::kube
