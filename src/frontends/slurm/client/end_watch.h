// How long who asked for a step's end waits for tasks that say nothing. A new connection hears of every task that runs
// that it has started, so silence is put to that test, beside the connection that is there: that one may be good, and
// while the controller is away no other can be made. Tasks that take long to end are waited for. Pure: times are given.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::slurm {

//             asked()            silent              attached()            silent, and the controller is there
//   kNotAsked ──────> kWaiting ─────────> kProbing ────────────> kListening ──────────────────────────────> kGivenUp
//                     ^      ^               │ │                     │                                         ^
//                     │      └─ heard() ─────┘ └─ no connection at all, as long   ────────────────────────────┘
//                     └──────── heard() ─────────────────────────────┘
class EndWatch {
 public:
  static constexpr std::int64_t kLastWordsMs = 3000;     // after the end was asked for
  static constexpr std::int64_t kStillThereMs = 10'000;  // between words of tasks that take long to end

  explicit EndWatch(std::int64_t patience_ms) : patience_ms_(patience_ms) {}

  void asked(std::int64_t now) { wait(now, kLastWordsMs); }
  void heard(std::int64_t now) {  // a word of a task that has not ended
    if (state_ == State::kWaiting || state_ == State::kProbing || state_ == State::kListening)
      wait(now, kStillThereMs);
  }
  void attached(std::int64_t now) {
    if (state_ == State::kProbing)
      state_ = State::kListening, since_ms_ = now;
  }
  void lost(std::int64_t now) {  // the connection that was kept
    if (state_ == State::kProbing)
      since_ms_ = now;
  }
  void controller_answered(std::int64_t now) { answered_ms_ = now; }

  enum class Do : unsigned char { kNothing, kProbe, kAskController, kGiveUp };
  Do look(std::int64_t now, bool connected) {
    if (now - since_ms_ <= allowed_ms_)
      return Do::kNothing;
    switch (state_) {
      case State::kNotAsked:
      case State::kGivenUp: return Do::kNothing;
      case State::kWaiting: state_ = State::kProbing, since_ms_ = now, allowed_ms_ = patience_ms_; return Do::kProbe;
      case State::kProbing:
        if (connected)
          return Do::kNothing;
        break;
      case State::kListening:
        if (connected && !controller_answers())
          return Do::kAskController;
        break;
    }
    state_ = State::kGivenUp;
    return Do::kGiveUp;
  }
  // When to look again; INT64_MAX: no need.
  std::int64_t due_ms(bool connected) const {
    const bool waits =
        state_ == State::kWaiting || state_ == State::kListening || (state_ == State::kProbing && !connected);
    return waits ? since_ms_ + allowed_ms_ + 1 : INT64_MAX;
  }

  bool is_probing() const { return state_ == State::kProbing; }
  bool controller_answers() const { return answered_ms_ >= since_ms_; }  // since the silence began

 private:
  enum class State : unsigned char { kNotAsked, kWaiting, kProbing, kListening, kGivenUp };
  void wait(std::int64_t now, std::int64_t allowed_ms) {
    state_ = State::kWaiting, since_ms_ = now, allowed_ms_ = std::min(allowed_ms, patience_ms_);
  }
  State state_ = State::kNotAsked;
  std::int64_t patience_ms_, allowed_ms_ = 0;
  std::int64_t since_ms_ = 0, answered_ms_ = -1;
};

}  // namespace lockstep::slurm
