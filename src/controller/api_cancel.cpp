// The API's cancels: one job, or all that a filter selects. Many become a command each, so that each is checked and
// refused on its own, a few batches at a time, so that others get their turn in between.
#include "base/text.h"
#include "controller/api.h"
#include "controller/job_choice.h"
#include "views/job_names.h"
#include "views/selectors.h"
#include "wire/api.h"

namespace lockstep {

namespace {

constexpr std::size_t kCancelsAtOnce = 1024;  // cancels in the core's queue

bool has_filter(const CancelMany& ask) {
  return !(ask.users.empty() && ask.states.empty() && ask.partitions.empty() && ask.names.empty() &&
           ask.accounts.empty() && ask.qos.empty() && ask.reservations.empty() && ask.wckeys.empty() &&
           ask.nodes.empty());
}

Result<std::vector<JobTarget>> names_of(const CancelMany& ask) {
  if (ask.targets.size() > kJobNamesMax)
    return invalid(format("at most {} jobs are named in one request", kJobNamesMax), "targets");
  std::vector<JobTarget> named;
  std::size_t ranges = kIndexRangesMax;
  for (const auto& text : ask.targets) named.push_back(TRY(parse_job_target(text, ranges)));
  return named;
}

// Others' jobs are not looked at: nobody but an administrator could cancel them, and a refusal each would only cost
// time.
Result<JobSelector> selector_of(const CancelMany& ask, const Viewer& viewer, const Tables& tables) {
  JobSelector selector;
  auto named = TRY(names_of(ask));
  if (!named.empty())
    selector.targets = TargetList(std::move(named));
  if (const auto unknown = unknown_user(tables, ask.users))
    return invalid("Invalid user name: " + *unknown, "users");
  if (!ask.users.empty())
    selector.users = users_named(tables, ask.users);
  if (!viewer.admin)
    selector.users =
        !selector.users || selector.users->contains(viewer.user) ? std::set<UserId>{viewer.user} : std::set<UserId>{};
  if (!ask.states.empty())
    selector.states = TRY(job_states_of(ask.states));
  selector.partitions = words_or_any(ask.partitions);
  selector.names = words_or_any(ask.names);
  selector.accounts = words_or_any(ask.accounts);
  selector.qos = words_or_any(ask.qos);
  selector.reservations = words_or_any(ask.reservations);
  selector.wckeys = words_or_any(ask.wckeys);
  if (!ask.nodes.empty())
    selector.nodes = TRY(nodes_named(tables, ask.nodes));
  if (viewer.only_on)
    selector.nodes = !selector.nodes || selector.nodes->contains(viewer.only_on) ? std::set<NodeId>{viewer.only_on}
                                                                                 : std::set<NodeId>{};
  return selector;
}

}  // namespace

void Api::cancel_job(Visit visit) {
  auto target = parse_job_target(visit.names[0]);
  auto body = decode_cancel(visit.http().body);
  if (!target.ok() || !body.ok())
    return visit.refuse(target.ok() ? body.error() : target.error());
  body->target = std::move(*target);
  command(std::move(visit), std::move(*body));
}

struct Api::Cancels {
  Visit visit;
  CancelMany ask;
  JobSelector selector;
  std::optional<std::vector<JobId>> among;  // only these need a look
  JobId looked_at;                          // jobs below have been
  std::vector<JobTarget> targets;
  std::vector<std::uint32_t> counts;  // how many that were named each stands for; empty: one
  std::size_t next = 0;
  CancelledMany answer;

  std::uint64_t count_of(std::size_t target) const { return counts.empty() ? 1 : counts[target]; }
  void take(std::size_t first, const std::vector<Result<Answer>>& answers);
};

// Read-only: it is said once, of the first one. The rest would only be refused too, and is counted.
void Api::Cancels::take(std::size_t first, const std::vector<Result<Answer>>& answers) {
  std::optional<std::size_t> told;
  std::uint64_t untried = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::size_t target = first + i;
    const bool is_down = !answers[i].ok() && answers[i].error().code == Errc::kUnavailable;
    if (answers[i].ok()) {
      answer.done += count_of(target);
    } else if (is_down && told) {
      untried += count_of(target);
    } else {
      if (is_down)
        told = answer.failed.size();
      answer.failed.push_back({text_of(targets[target]), answers[i].error()});
    }
  }
  if (!told)
    return;
  for (; next < targets.size(); ++next) untried += count_of(next);
  if (untried > 0)
    answer.failed[*told].error.message += format("; {} more were not tried", untried);
}

void Api::cancel_jobs(Visit visit) {
  decoded(
      std::move(visit), [](const std::string& body) { return decode_cancel_many(body); },
      [this](Visit v, Result<CancelMany> ask) { cancel_many(std::move(v), std::move(ask)); });
}

void Api::cancel_many(Visit visit, Result<CancelMany> ask) {
  if (!ask.ok())
    return visit.refuse(ask.error());
  auto all = std::make_shared<Cancels>(Cancels{std::move(visit), std::move(*ask), {}, {}, {}, {}, {}, 0, {}});
  if (has_filter(all->ask)) {
    auto selector = selector_of(all->ask, all->visit.viewer(), world_.view.tables());
    if (!selector.ok())
      return all->visit.refuse(selector.error());
    all->selector = std::move(*selector);
    all->among = world_.view.index().candidates(all->selector);
    return select_next(all);
  }
  auto named = names_of(all->ask);
  if (!named.ok())
    return all->visit.refuse(named.error());
  if (named->empty())
    return all->visit.refuse(invalid("names no job: give targets, or a filter such as users or states", "targets"));
  all->targets = together(world_.view.tables(), std::move(*named), all->counts);
  cancel_next(all);
}

void Api::select_next(const std::shared_ptr<Cancels>& all) {
  constexpr std::size_t kLookedAtOnce = 256;
  while (select_more(world_.view.tables(), all->selector, all->looked_at, kLookedAtOnce, all->targets,
                     all->among ? &*all->among : nullptr))
    if (world_.turns.slice_over())
      return world_.turns.go_on([this, all] { select_next(all); });
  cancel_next(all);
}

void Api::cancel_next(const std::shared_ptr<Cancels>& all) {
  if (all->next == all->targets.size())
    return all->visit.answer(encode(all->answer));
  const std::size_t first = all->next;
  all->next = std::min(all->targets.size(), first + kCancelsAtOnce);
  std::vector<CoreLoop::Submission> part;
  for (std::size_t i = first; i < all->next; ++i)
    part.push_back({{all->visit.caller, CancelJob{all->targets[i], all->ask.signal, all->ask.reach}}, {}});
  world_.core.submit_all(std::move(part), [this, all, first](const std::vector<Result<Answer>>& answers) {
    all->take(first, answers);
    cancel_next(all);
  });
}

}  // namespace lockstep
