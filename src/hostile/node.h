// A node in the wrong hands: it has a certificate, says hello, and answers what it is told as it likes: truly, late,
// twice, with ranks that do not exist, or with frames of its own making. Lives on the loop's thread.
#pragma once

#include <memory>
#include <string>

#include "hostile/caller.h"
#include "hostile/grammar.h"
#include "model/agent_messages.h"
#include "wire/frame.h"

namespace lockstep::hostile {

class HostileNode {
 public:
  HostileNode(std::string name, std::uint64_t seed) : name_(std::move(name)), rng_(seed) {}
  const std::string& name() const { return name_; }
  bool linked() const { return wire_ && !wire_->gone; }

  void connect(std::shared_ptr<Wire> wire);  // of an upgraded /v1/link
  void act(Grammar& grammar);                // one deed of its own: a renewal, a report, a frame, the end of the link

 private:
  template <class T>
  const T* any_of(const std::vector<T>& list) {  // null: it is empty
    return list.empty() ? nullptr : &list[rng_.below(list.size())];
  }
  void hang_up();
  void hear(std::string_view bytes);
  void answer(const ToAgent& message);
  void say(const FromAgent& message);
  void report(JobId job, AttemptNo attempt, ReportBody body);
  void frame(std::uint8_t type, std::uint64_t stream, std::string_view payload);

  std::string name_;
  Rng rng_;
  std::shared_ptr<Wire> wire_;
  FrameReader reader_;
  std::uint64_t next_report_ = 1;
  std::vector<LaunchAttempt> attempts_;
  std::vector<LaunchStep> steps_;
};

}  // namespace lockstep::hostile
