#include "controller/waiters.h"

#include <vector>

#include "base/mutant.h"
#include "base/text.h"

namespace lockstep {

Result<void> Waiters::room(const Payer& payer) const {
  const auto held = by_payer_.find(payer.name);
  if (payer.reserved || held == by_payer_.end() || held->second < each_max_)
    return {};
  return Error{Errc::kExhausted,
               format("{} waits for {} things at once already: end some of the waits first", payer.name, held->second),
               "waits"};
}

void Waiters::add(const Payer& payer, JobId job, std::shared_ptr<HttpExchange> exchange, Ready ready, Duration timeout,
                  std::shared_ptr<void> keep, std::function<void()> gone) {
  if (auto answer = ready()) {
    exchange->respond(std::move(*answer));
    return;
  }
  const std::uint64_t id = next_++;
  TimerId timer = 0;
  if (timeout < kForever)
    timer = loop_.after(timeout, [this, id] {
      if (!waiting_.contains(id))
        return;
      waiting_.at(id).timer = 0;
      remove(id).exchange->respond({204, "application/json", "", {}});
    });
  by_job_[job].insert(id);
  ++by_payer_[payer.name];
  waiting_.emplace(id, Waiter{payer, job, exchange, std::move(ready), timer, std::move(keep), std::move(gone)});
  exchange->on_gone([this, id] {  // perhaps at once
    if (!waiting_.contains(id) || mutant(Mutant::kWatchLeak))
      return;
    if (const Waiter left = remove(id); left.gone)
      left.gone();
  });
}

Waiters::Waiter Waiters::remove(std::uint64_t id) {
  const auto it = waiting_.find(id);
  Waiter gone = std::move(it->second);
  waiting_.erase(it);
  if (gone.timer)
    loop_.cancel(gone.timer);
  if (const auto held = by_payer_.find(gone.payer.name); --held->second == 0)
    by_payer_.erase(held);
  const auto job = by_job_.find(gone.job);
  job->second.erase(id);
  if (job->second.empty())
    by_job_.erase(job);
  return gone;
}

void Waiters::wake(std::uint64_t id) {
  Waiter& waiter = waiting_.at(id);
  if (waiter.woken)
    return;
  waiter.woken = true;
  const Payer payer = waiter.payer;  // looking at once may end the wait
  turns_.add_later(payer, [this, id] { look(id); });
}

void Waiters::look(std::uint64_t id) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end())
    return;
  it->second.woken = false;
  if (auto answer = it->second.ready())
    remove(id).exchange->respond(std::move(*answer));
}

void Waiters::changed(const std::set<JobId>& jobs) {
  std::vector<std::uint64_t> ids;
  if (const auto any = by_job_.find(JobId{}); any != by_job_.end())
    ids.assign(any->second.begin(), any->second.end());
  for (const JobId job : jobs)
    if (const auto it = by_job_.find(job); it != by_job_.end())
      ids.insert(ids.end(), it->second.begin(), it->second.end());
  for (const auto id : ids)
    if (waiting_.contains(id))
      wake(id);
}

}  // namespace lockstep
