// Signals for a step's tasks that wait in the queue to its connection. What breaks with the connection is sent again
// over the next one, and so is what nobody at the other end had read, as the kernel tells. What was read is not, so
// that no task gets a signal twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep::slurm {

class UnsentSignals {
 public:
  // queue_bytes: how long the queue is with the signal's frame at its end. A signal that waits already waits once, as
  // in the kernel.
  void add(int signal, std::size_t queue_bytes) {
    if (!has(signal))
      frames_.push_back({signal, queue_bytes});
  }
  bool has(int signal) const {
    return std::any_of(frames_.begin(), frames_.end(), [&](const Frame& frame) { return frame.signal == signal; });
  }
  void sent(std::size_t bytes) {
    for (Frame& frame : frames_) {
      if (frame.end <= bytes)
        left_.push_back(frame.signal);
      frame.end -= std::min(frame.end, bytes);
    }
    std::erase_if(frames_, [](const Frame& frame) { return frame.end == 0; });
  }
  bool has_left() const { return !left_.empty(); }
  void was_read() { left_.clear(); }  // all that was sent so far
  void was_not_read() {               // the last of what was sent
    for (const int signal : std::exchange(left_, {})) add(signal, 0);
  }
  std::vector<int> all() const {
    std::vector<int> out;
    for (const Frame& frame : frames_) out.push_back(frame.signal);
    return out;
  }
  std::vector<int> take() {
    std::vector<int> out = all();
    frames_.clear();
    left_.clear();
    return out;
  }

 private:
  struct Frame {
    int signal;
    std::size_t end;  // bytes of the queue until it has left whole
  };
  std::vector<Frame> frames_;
  std::vector<int> left_;  // sent whole, and perhaps not read yet
};

}  // namespace lockstep::slurm
