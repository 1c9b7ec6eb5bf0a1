#include "controller/read_loop.h"

#include "base/thread.h"
#include "controller/poison.h"

namespace lockstep {

ReadLoop::ReadLoop(std::span<const Change> snapshot, CallerCounts::Most most) : counts_(most) {
  for (const Change& change : snapshot) tables_.apply(change);
}

void ReadLoop::start() {
  thread_ = start_thread_or_exit("reads", [this] { run(); });
}

void ReadLoop::stop() {
  if (!thread_.joinable())
    return;
  inbox_.post(Stop{});
  thread_.join();
}

Result<void> ReadLoop::ask(const Payer& payer, Question question) {
  TRY(counts_.enter(payer.name, payer.reserved, "long requests or questions"));
  inbox_.post(Asked{payer.name, std::move(question)});
  return {};
}

void ReadLoop::take_in(Message& message) {
  if (auto* batch = std::get_if<std::shared_ptr<const Engine::Batch>>(&message)) {
    const AtWorkFor at_work((*batch)->commands);
    for (const Change& change : (*batch)->changes) tables_.apply(change);
  } else if (auto* asked = std::get_if<Asked>(&message)) {
    const std::string caller = asked->caller;
    waiting_.push(caller, std::move(*asked));
  } else {
    stopping_ = true;
  }
}

void ReadLoop::run() {
  while (!stopping_ || !waiting_.empty()) {
    for (auto& message : inbox_.take(waiting_.empty() ? kForever : Duration{})) take_in(message);
    if (waiting_.empty())
      continue;
    const Asked asked = waiting_.pop().second;
    asked.question(tables_);
    if (!asked.caller.empty())
      counts_.leave(asked.caller);
  }
}

}  // namespace lockstep
