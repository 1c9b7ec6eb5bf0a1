#include "frontends/kube/controllers/quota_ledger.h"

#include <boost/json/parse.hpp>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/controllers/new_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kQuotaType = "resourcequotas";

std::string amount_words(const Amounts& amounts) {
  std::string out;
  for (const auto& [name, amount] : amounts) out += format("{}{}={}", out.empty() ? "" : ",", name, amount.text());
  return out;
}

Amounts named_in(const Amounts& amounts, const Amounts& names) {
  Amounts out;
  for (const auto& [name, amount] : amounts)
    if (names.contains(name))
      out[name] = amount;
  return out;
}

}  // namespace

QuotaLedger::QuotaLedger(const Tables& tables, const std::string& ns) {
  const std::string type(kQuotaType);
  if (ns.empty())
    return;
  for (auto at = tables.objects.lower_bound({type, ns, ""});
       at != tables.objects.end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns; ++at) {
    json::object body = body_of(*at->second);
    Amounts bounds = bounds_of(body), used = used_of(body);
    lines_.push_back({at->second, std::move(body), std::move(bounds), std::move(used), false});
  }
}

std::optional<std::string> QuotaLedger::count(std::string_view type, const json::object& tree,
                                              const json::object* old) {
  if (type == kQuotaType)
    return std::nullopt;
  std::vector<Amounts> sums(lines_.size());
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    if (!quota_takes(line.body, type, tree))
      continue;
    Amounts more = amounts_of(type, tree);
    if (old && quota_takes(line.body, type, *old))
      for (const auto& [name, amount] : amounts_of(type, *old)) more[name] -= amount;
    more = named_in(more, line.bounds);
    std::erase_if(more, [](const auto& one) { return one.second.sign() <= 0; });
    if (more.empty())
      continue;
    Amounts used = line.used, exceeded;
    for (const auto& [what, amount] : more) {
      const auto now = used.find(what);
      if (now == used.end())
        return format("status unknown for quota: {}, resources: {}", line.quota->meta.name, what);
      now->second += amount;
      if (now->second > line.bounds.at(what))
        exceeded[what] = amount;
    }
    if (!exceeded.empty())
      return format("exceeded quota: {}, requested: {}, used: {}, limited: {}", line.quota->meta.name,
                    amount_words(exceeded), amount_words(named_in(line.used, exceeded)),
                    amount_words(named_in(line.bounds, exceeded)));
    sums[i] = std::move(used);
  }
  for (std::size_t i = 0; i < lines_.size(); ++i)
    if (!sums[i].empty()) {
      lines_[i].used = std::move(sums[i]);
      lines_[i].touched = true;
    }
  return std::nullopt;
}

std::vector<CommandBody> QuotaLedger::take() {
  std::vector<CommandBody> out;
  for (Line& line : lines_) {
    if (!line.touched)
      continue;
    line.touched = false;
    json::object body = line.body;
    body["status"].as_object()["used"] = amounts_object(line.used);
    const Seq read = mutant(Mutant::kQuotaOverrun) ? 0 : line.quota->meta.seq;
    out.emplace_back(PutObject{with_body(*line.quota, body), read});
  }
  return out;
}

}  // namespace lockstep::kube
