// StreamRoom: the conversations with containers that are going on: who execs, attaches or forwards ports.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "routes/front_end.h"

namespace lockstep::kube {

class Conversation {
 public:
  virtual ~Conversation() = default;
};

// A conversation cannot go while one of its streams is calling it: what has ended is let go at the next change of the
// cluster, or when the next one begins.
class StreamRoom final : public FrontReader {
 public:
  void keep(std::shared_ptr<Conversation> one) {
    ended_.clear();
    all_.insert(std::move(one));
  }
  void end(const Conversation* one) {
    for (auto at = all_.begin(); at != all_.end(); ++at)
      if (at->get() == one) {
        ended_.push_back(*at);
        all_.erase(at);
        return;
      }
  }
  std::size_t size() const { return all_.size(); }

  void begin(const Tables&) override {}
  void change(const Tables&, const Change&) override { ended_.clear(); }

 private:
  std::set<std::shared_ptr<Conversation>> all_;
  std::vector<std::shared_ptr<Conversation>> ended_;
};

inline constexpr std::size_t kConversationsMax = 4096;

}  // namespace lockstep::kube
