#include "controller/job_page.h"

#include "base/text.h"
#include "controller/job_choice.h"
#include "controller/record_list.h"
#include "views/job_names.h"
#include "views/selectors.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

std::vector<std::string> words_of(const PageRequest& request, std::string_view name) {
  const auto it = request.query.find(name);
  auto out = split(it == request.query.end() ? std::string_view() : std::string_view(it->second), ',');
  std::erase_if(out, [](const std::string& word) { return word.empty(); });
  return out;
}

Result<JobSelector> selector_of(const ReadContext& context, const PageRequest& request) {
  JobSelector selector;
  if (const auto id = request.query.find("id"); id != request.query.end() && !id->second.empty()) {
    std::vector<JobTarget> targets;
    for (auto& name : TRY(parse_work_names(id->second))) targets.push_back(std::move(name.target));
    selector.targets = TargetList(std::move(targets));
  }
  if (const auto users = words_of(request, "user"); !users.empty())
    selector.users = users_named(context.tables, users);
  if (const auto states = words_of(request, "state"); !states.empty())
    selector.states = TRY(job_states_of(states));
  selector.partitions = words_or_any(words_of(request, "partition"));
  selector.names = words_or_any(words_of(request, "name"));
  return selector;
}

}  // namespace

PageReply jobs_page(const ReadContext& context, const PageRequest& request) {
  const auto selector = selector_of(context, request);
  if (!selector.ok())
    return {http_status_of(selector.error().code), "application/json", encode_error(selector.error()), {}};
  std::vector<Record> records;
  for_each_job(context.tables, *selector, [&](const Ref<Job>& job) { records.emplace_back(job); });
  return record_list(Kind::kJob, context.viewer(), std::move(records));
}

}  // namespace lockstep
