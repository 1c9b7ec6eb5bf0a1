// PodDesk: asks webhooks about pods that controllers want to make, on the I/O thread, and keeps what they say until the
// controller looks again. Two threads meet here: one posts questions, the other puts up a board of answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/kube/controllers/pod_admission.h"
#include "frontends/kube/server/webhook_calls.h"
#include "routes/front_end.h"

namespace lockstep::kube {

class PodDesk final : public PodAdmission, public FrontReader, public std::enable_shared_from_this<PodDesk> {
 public:
  // post: runs a task on the I/O thread; from any.
  PodDesk(CallsOut call, std::function<std::string(std::size_t)> random_hex,
          std::function<void(std::function<void()>)> post);

  // On the controllers' thread.
  Told take(const Question& question, Instant now) override;

  void begin(const Tables&) override {}
  void change(const Tables&, const Change&) override {}
  void meet(const std::shared_ptr<FrontHands>& hands) override { hands_ = hands; }

 private:
  using Number = std::uint64_t;  // of what makes pods alike
  struct Answer {
    PodVerdict verdict;
    Instant at;
  };
  // In the order in which they came; those before `first` were fetched.
  struct Answers {
    std::uint64_t first = 0;
    std::vector<std::shared_ptr<const Answer>> list;
    std::uint64_t end() const { return first + list.size(); }
  };
  using Board = std::map<Number, std::shared_ptr<const Answers>>;
  struct Alike {
    Number number = 0;
    std::string ns;
    std::uint64_t asked = 0, fetched = 0;
    Instant since;    // when nothing was out, or an answer was fetched last
    Instant touched;  // when somebody wanted it last
  };

  std::uint64_t out_of(const Board& board, const Alike& alike) const;
  bool has_room(const Board& board, const std::string& ns) const;
  void forget_old(const Board& board, Instant now);
  // On the I/O thread.
  void drop_fetched(Number number, std::uint64_t fetched);
  void ask(Number number, std::uint64_t fetched, json::object pod);
  void answered(Number number, PodVerdict verdict);

  const CallsOut call_;
  const std::function<std::string(std::size_t)> random_hex_;
  const std::function<void(std::function<void()>)> post_;
  // Replaced by the I/O thread alone: whoever has one keeps it as it was.
  std::atomic<std::shared_ptr<const Board>> board_{std::make_shared<const Board>()};
  // Of the controllers' thread.
  std::map<std::string, Alike> alike_;
  Number last_ = 0;
  // Of the I/O thread.
  std::shared_ptr<FrontHands> hands_;
};

}  // namespace lockstep::kube
