#include "shim/wait_set.h"

#include <errno.h>

#include <algorithm>

#include "base/check.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLongest = 1 << 30;  // milliseconds: poll takes an int

// A wait never ends before its time is up.
int timeout_ms(std::int64_t wait_us) {
  return wait_us < 0 ? -1 : static_cast<int>(std::min((wait_us + 999) / 1000, kLongest));
}

}  // namespace

void WaitSet::add(int fd, int events, Awaited why) {
  CHECK(events != 0);
  polls_.push_back({fd, static_cast<short>(events), 0});
  whys_.push_back(why);
}

bool WaitSet::wait(std::int64_t wait_us) {
  CHECK(polls_.size() == whys_.size());
  return ::poll(polls_.data(), polls_.size(), timeout_ms(wait_us)) >= 0 || errno == EINTR;
}

std::vector<Awaited> WaitSet::ready() const {
  std::vector<Awaited> ready;
  for (std::size_t i = 0; i < polls_.size(); ++i)
    if (polls_[i].revents != 0)
      ready.push_back(whys_[i]);
  return ready;
}

}  // namespace lockstep
