// Signals as something a loop reads: blocked for the whole process while a desk exists, delivered on a descriptor.
#pragma once

#include <signal.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::slurm {

struct ArrivedSignal {
  int signal = 0;
  bool sent_to_steps_too = false;  // to all of the job: what accompanies a step need not hand it on
};

class SignalDesk {
 public:
  explicit SignalDesk(const std::vector<int>& signals);
  ~SignalDesk();
  SignalDesk(SignalDesk&&) = delete;
  int fd() const { return fd_; }
  std::vector<ArrivedSignal> arrivals();
  std::vector<int> take();                // those that arrived
  void restore_in_child() const;          // the mask as it was, for a program about to be started
  static std::vector<int> all_of_srun();  // what srun forwards or handles itself

 private:
  int fd_ = -1;
  ::sigset_t before_{};
};

// While one lives, a signal that ends programs ends this one, after these words on standard error: for calls that may
// take long while no desk is looked at. A signal that is ignored stays so. One at a time, on the main thread.
class MayBeEnded {
 public:
  explicit MayBeEnded(std::string words);
  ~MayBeEnded();
  MayBeEnded(MayBeEnded&&) = delete;

 private:
  ::sigset_t before_{};
  struct ::sigaction actions_[4] = {};
};

// Does `work`, which tells the cluster how something ended. Signals end the program, after these words, only where that
// takes longer than a second: one that came as all was over must not leave the cluster untold.
void tell_the_end(SignalDesk& signals, std::string words, const std::function<void()>& work);

std::int64_t monotonic_ms();

}  // namespace lockstep::slurm
