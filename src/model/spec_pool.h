// SpecPool: jobs that ask for the same thing share one JobSpec. Used while records are read back, where every log entry
// brings specs of its own.
#pragma once

#include <unordered_map>

#include "model/meta.h"
#include "model/spec.h"

namespace lockstep {

class SpecPool {
 public:
  // One equal to spec: that of the first who brought it. A new one shares with the one before what is the same in both.
  Ref<JobSpec> share(Ref<JobSpec> spec);

 private:
  std::unordered_multimap<std::size_t, Ref<JobSpec>> specs_;  // by a hash of what mostly differs
  Ref<JobSpec> last_;
};

}  // namespace lockstep
