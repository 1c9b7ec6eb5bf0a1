// PodDesk: asks webhooks about pods that controllers want to make, on the I/O thread, and keeps what they say until the
// controller looks again.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "frontends/kube/controllers/pod_admission.h"
#include "frontends/kube/server/webhook_calls.h"
#include "routes/front_end.h"

namespace lockstep::kube {

class PodDesk final : public PodAdmission, public FrontReader, public std::enable_shared_from_this<PodDesk> {
 public:
  // post: runs a task on the I/O thread; from any.
  PodDesk(CallsOut call, std::function<std::string(std::size_t)> random_hex,
          std::function<void(std::function<void()>)> post);

  Told take(const Question& question, Instant now) override;

  void begin(const Tables&) override {}
  void change(const Tables&, const Change&) override {}
  void meet(const std::shared_ptr<FrontHands>& hands) override { hands_ = hands; }

 private:
  struct Ready {
    PodVerdict verdict;
    Instant at;
  };
  struct Entry {
    std::string ns;
    std::deque<Ready> ready;
    std::size_t out = 0;  // questions without an answer
    Instant since;        // of the first of them
    Instant touched;      // when somebody wanted it last
  };

  void ask(const std::string& key, json::object pod);  // on the I/O thread
  void answered(const std::string& key, PodVerdict verdict);
  void drop_forgotten(Instant now);

  const CallsOut call_;
  const std::function<std::string(std::size_t)> random_hex_;
  const std::function<void(std::function<void()>)> post_;
  std::shared_ptr<FrontHands> hands_;  // of the I/O thread
  std::mutex mutex_;                   // of all below: two threads meet here
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::size_t> out_of_;  // questions of each namespace without an answer; none zero
  std::size_t out_ = 0;                        // all of them
};

}  // namespace lockstep::kube
