#include "sim/process_checker.h"

namespace lockstep::sim {

std::string ProcessChecker::name(const WorkId& key) {
  std::string text = format("job {} attempt {} ", key.job.value, key.attempt);
  if (is_script(key))
    return text + "script";
  if (const TaskPart* task = task_of(key))
    return text + format("task {}/{} incarnation {}", task->group, task->index, task->incarnation);
  return text + format("step {}", step_of(key)->step);
}

void ProcessChecker::started(std::size_t node, const WorkId& key, std::uint32_t rank, const Using& with, Instant now) {
  if (verdict_.noting)
    verdict_.note(now, format("n{}: {} rank {} starts", node + 1, name(key), rank));
  const auto [it, fresh] = lives_.try_emplace({key, rank});
  if (!fresh)
    verdict_.fail(
        format("{} rank {} ran twice: on n{}, and before on n{}", name(key), rank, node + 1, it->second.node + 1));
  it->second = {node, now, true, false, with, {}};
  const Attempt attempt{key.job, key.attempt};
  ++live_[{node, attempt}];
  use(node, attempt, with);
}

void ProcessChecker::use(Users& users, const char* what, std::size_t node, std::uint32_t number,
                         const Attempt& attempt) {
  auto& here = users[{node, number}];
  ++here[attempt];
  if (here.size() > 1)
    verdict_.fail(format("{} {} of n{} is used by job {} attempt {} and by job {} attempt {}", what, number, node + 1,
                         here.begin()->first.first.value, here.begin()->first.second, here.rbegin()->first.first.value,
                         here.rbegin()->first.second));
}

void ProcessChecker::use(std::size_t node, const Attempt& attempt, const Using& with) {
  with.devices.for_each([&](std::uint32_t device) { use(users_, "device", node, device, attempt); });
  with.cores.for_each([&](std::uint32_t core) { use(core_users_, "core", node, core, attempt); });
}

void ProcessChecker::ended(std::size_t node, const WorkId& key, std::uint32_t rank, const ExitStatus& exit, How how,
                           Instant now) {
  if (verdict_.noting)
    verdict_.note(now, format("n{}: {} rank {} ends: code {} signal {}{}", node + 1, name(key), rank, exit.code,
                              exit.signal, how == How::kMachine ? ", with its machine" : ""));
  Life& life = lives_.at({key, rank});
  life.live = false;
  life.end = {node, exit, how, now};
  const Attempt attempt{key.job, key.attempt};
  const auto it = live_.find({node, attempt});
  if (--it->second == 0)
    live_.erase(it);
  if (!life.paused)
    leave(node, attempt, life.with);
}

void ProcessChecker::leave(std::size_t node, const Attempt& attempt, const Using& with) {
  const auto one = [&](Users& all, std::uint32_t number) {
    auto& users = all[{node, number}];
    if (--users[attempt] == 0)
      users.erase(attempt);
  };
  with.devices.for_each([&](std::uint32_t device) { one(users_, device); });
  with.cores.for_each([&](std::uint32_t core) { one(core_users_, core); });
}

void ProcessChecker::paused(std::size_t node, const WorkId& key, std::uint32_t rank, bool yes) {
  Life& life = lives_.at({key, rank});
  if (!life.live || life.paused == yes)
    return;
  life.paused = yes;
  if (yes)
    leave(node, {key.job, key.attempt}, life.with);
  else
    use(node, {key.job, key.attempt}, life.with);
}

void ProcessChecker::forgotten_alive(std::size_t node, const WorkId& key) {
  verdict_.fail(format("the agent of n{} forgot {} while it runs", node + 1, name(key)));
}

std::size_t ProcessChecker::live(std::size_t node, JobId job, AttemptNo attempt) const {
  const auto it = live_.find({node, {job, attempt}});
  return it == live_.end() ? 0 : it->second;
}

std::size_t ProcessChecker::running(std::size_t node, JobId job, AttemptNo attempt) const {
  std::size_t count = 0;
  for (auto it = lives_.lower_bound({WorkId{job, attempt, ScriptPart{}}, 0});
       it != lives_.end() && it->first.first.job == job && it->first.first.attempt == attempt; ++it)
    count += it->second.node == node && it->second.live && !it->second.paused;
  return count;
}

const ProcessChecker::End* ProcessChecker::end_of(const WorkId& key, std::uint32_t rank) const {
  const auto it = lives_.find({key, rank});
  return it == lives_.end() || it->second.live ? nullptr : &it->second.end;
}

}  // namespace lockstep::sim
