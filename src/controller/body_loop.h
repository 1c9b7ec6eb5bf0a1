// BodyLoop: the thread on which long bodies are read and judged as far as that takes no look at the cluster. It is
// neither the one that answers everybody and renews leases, nor the one on which long lists are made. One body at a
// time, callers in turn; each may have a few waiting.
#pragma once

#include <functional>
#include <thread>
#include <variant>

#include "controller/caller_queue.h"
#include "controller/mailbox.h"
#include "controller/turns.h"

namespace lockstep {

class BodyLoop {
 public:
  using Work = std::function<void()>;
  explicit BodyLoop(CallerCounts::Most most) : counts_(most) {}
  ~BodyLoop() { stop(); }
  void start();
  void stop();  // what waits is still done

  // From any thread. kExhausted when too many wait; the work is dropped here then.
  Result<void> ask(const Payer& payer, Work work);

 private:
  struct Asked {
    std::string caller;
    Work work;
  };
  struct Stop {};
  using Message = std::variant<Asked, Stop>;
  void run();

  Mailbox<Message> inbox_;
  CallerCounts counts_;
  CallerQueue<Asked> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
