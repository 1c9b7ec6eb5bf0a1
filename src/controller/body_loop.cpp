#include "controller/body_loop.h"

#include "base/thread.h"

namespace lockstep {

void BodyLoop::start() {
  thread_ = start_thread_or_exit("bodies", [this] { run(); });
}

void BodyLoop::stop() {
  if (!thread_.joinable())
    return;
  inbox_.post(Stop{});
  thread_.join();
}

Result<void> BodyLoop::ask(const Payer& payer, Work work) {
  TRY(counts_.enter(payer.name, payer.reserved, "long bodies"));
  inbox_.post(Asked{payer.name, std::move(work)});
  return {};
}

void BodyLoop::run() {
  while (!stopping_ || !waiting_.empty()) {
    for (auto& message : inbox_.take(waiting_.empty() ? kForever : Duration{}))
      if (auto* asked = std::get_if<Asked>(&message)) {
        const std::string caller = asked->caller;
        waiting_.push(caller, std::move(*asked));
      } else {
        stopping_ = true;
      }
    if (waiting_.empty())
      continue;
    const Asked asked = waiting_.pop().second;
    asked.work();
    counts_.leave(asked.caller);
  }
}

}  // namespace lockstep
