#include "core/named.h"

#include "base/check.h"
#include "base/text.h"
#include "model/ids.h"
#include "model/job.h"
#include "model/job_state.h"
#include "model/spec.h"
#include "model/tres_names.h"

namespace lockstep {

namespace {

bool is_unfinished(const Job* job) { return job && !is_final(job->state); }

// Both name the same, as far as a look at shared parts tells.
bool name_alike(const JobSpec& a, const JobSpec& b) {
  return &a == &b || (a.user == b.user && a.account == b.account && a.qos == b.qos && a.partitions == b.partitions &&
                      a.licenses == b.licenses && a.reservation == b.reservation);
}

}  // namespace

template <class F>
void Named::each(const Job& job, F&& change) {
  const JobSpec& spec = *job.spec;
  const auto of_noun = [&](Noun noun, const std::string& name) { change(jobs_, std::pair{noun, name}); };
  of_noun(Noun::kAccount, spec.account);
  of_noun(Noun::kQos, spec.qos);
  if (spec.partitions.empty())
    of_noun(Noun::kPartition, "");
  for (const std::string& name : spec.partitions) of_noun(Noun::kPartition, name);
  if (!spec.licenses.empty())
    if (const auto licences = parse_licenses(spec.licenses); licences.ok())
      for (const NamedCount& licence : *licences) of_noun(Noun::kLicence, licence.name);
  const std::string first = spec.partitions.empty() ? std::string() : spec.partitions.front();
  change(standing_, std::tuple{spec.account.get(), spec.user, first});
}

void Named::change_reserved(const Job& job, bool there) {
  for (const std::string& name : split(job.spec->reservation, ',')) {
    const auto at = reserved_.try_emplace(name).first;
    auto& jobs = holds_allocation(job.state) ? at->second.running : at->second.waiting;
    if (there)
      jobs.insert(job.id);
    else
      jobs.erase(job.id);
    if (at->second == Reserved{})
      reserved_.erase(at);
  }
}

void Named::index(const Job* before, const Job* after) {
  const bool was = is_unfinished(before), is = is_unfinished(after);
  const auto reserved = [](const Job* job) { return is_unfinished(job) && !job->spec->reservation.empty(); };
  const bool alike = was && is && name_alike(*before->spec, *after->spec);
  if (!alike || holds_allocation(before->state) != holds_allocation(after->state)) {
    if (reserved(before))
      change_reserved(*before, false);
    if (reserved(after))
      change_reserved(*after, true);
  }
  if (alike || (!was && !is))
    return;
  // A job may name a thing twice: what is gone already is no fault.
  if (was)
    each(*before, [&](auto& map, const auto& key) {
      const auto at = map.find(key);
      if (at == map.end())
        return;
      at->second.erase(before->id);
      if (at->second.empty())
        map.erase(at);
    });
  if (is)
    each(*after, [&](auto& map, const auto& key) { map[key].insert(after->id); });
}

JobId Named::first(Noun noun, const std::string& name) const {
  const auto at = jobs_.find({noun, name});
  return at == jobs_.end() ? JobId{} : at->second.front();
}

JobId Named::first_in(const std::string& account, const std::function<bool(UserId, const std::string&)>& test) const {
  for (auto at = standing_.lower_bound({account, UserId{}, ""});
       at != standing_.end() && std::get<0>(at->first) == account; ++at)
    if (test(std::get<1>(at->first), std::get<2>(at->first)))
      return at->second.front();
  return {};
}

const Named::Reserved& Named::in_reservation(const std::string& name) const {
  static const Reserved none;
  const auto at = reserved_.find(name);
  return at == reserved_.end() ? none : at->second;
}

}  // namespace lockstep
