#include "frontends/kube/server/quota_admission.h"

#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/quota.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kQuotas = "resourcequotas";

std::string words_of(const Amounts& amounts) {
  std::string out;
  for (const auto& [name, amount] : amounts) out += format("{}{}={}", out.empty() ? "" : ",", name, amount.text());
  return out;
}

Amounts only(const Amounts& amounts, const Amounts& names) {
  Amounts out;
  for (const auto& [name, amount] : amounts)
    if (names.contains(name))
      out[name] = amount;
  return out;
}

}  // namespace

Answered<std::vector<CommandBody>> count_in_quotas(const Request& request, const json::object& tree,
                                                   const json::object* old) {
  std::vector<CommandBody> out;
  const std::string& ns = request.target.ns;
  const std::string& type = request.kind->type;
  if (ns.empty() || type == kQuotas)
    return out;
  const auto read = request.visit->read();
  const auto& objects = read->tables.objects;
  const std::string quotas(kQuotas);
  Amounts wanted;
  for (auto at = objects.lower_bound({quotas, ns, ""});
       at != objects.end() && std::get<0>(at->first) == quotas && std::get<1>(at->first) == ns; ++at) {
    const Object& quota = *at->second;
    json::object body = json::parse(quota.body).as_object();
    if (!quota_takes(body, type, tree))
      continue;
    Amounts more = amounts_of(type, tree);
    if (old && quota_takes(body, type, *old))
      for (const auto& [name, amount] : amounts_of(type, *old)) more[name] -= amount;
    const Amounts bounds = bounds_of(body);
    more = only(more, bounds);
    std::erase_if(more, [](const auto& one) { return one.second.sign() <= 0; });
    if (more.empty())
      continue;
    Amounts used = used_of(body), exceeded;
    const json::value* named = member(tree.at("metadata"), "name");
    const std::string name(named ? text_of(*named) : "");
    for (const auto& [what, amount] : more) {
      const auto now = used.find(what);
      if (now == used.end())
        return Status::forbidden(request.resource(), name,
                                 format("status unknown for quota: {}, resources: {}", quota.meta.name, what));
      now->second += amount;
      if (now->second > bounds.at(what))
        exceeded[what] = amount;
    }
    if (!exceeded.empty()) {
      Amounts before = only(used_of(body), exceeded);
      return Status::forbidden(request.resource(), name,
                               format("exceeded quota: {}, requested: {}, used: {}, limited: {}", quota.meta.name,
                                      words_of(exceeded), words_of(before), words_of(only(bounds, exceeded))));
    }
    body["status"].as_object()["used"] = amounts_object(used);
    Object counted = quota;
    counted.body = body_text(std::move(body));
    out.emplace_back(PutObject{std::move(counted), quota.meta.seq});
  }
  return out;
}

}  // namespace lockstep::kube
