// WaitSet: what one turn of a shim waits for, and what was ready when the wait was over.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// Why a descriptor is waited for. index: of the client, or of the task in the step; stream: of the task's outputs.
struct Awaited {
  enum class What : unsigned char {
    kSignals,
    kListener,
    kStarter,
    kWorld,
    kSandbox,
    kTold,
    kClient,
    kOutput,
    kInput
  } what = What::kSignals;
  std::size_t index = 0;
  int stream = 0;
};

inline constexpr std::int64_t kWaitForEver = -1;

class WaitSet {
 public:
  // events: POLLIN, POLLOUT. A descriptor that is none is never ready.
  void add(int fd, int events, Awaited why);
  // Until one is ready, or so long; a signal ends it early. False: the kernel could not wait at all.
  bool wait(std::int64_t wait_us);
  std::vector<Awaited> ready() const;  // in the order in which they were added

 private:
  std::vector<pollfd> polls_;
  std::vector<Awaited> whys_;
};

}  // namespace lockstep
