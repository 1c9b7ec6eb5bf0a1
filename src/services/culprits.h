// Culprits: which of the services it is that the packet filter does not take. Told of each try whether it was taken, it
// says what the next one is to leave out: first everything (then it is no service's fault), then halves of what is in
// doubt, until each that is at fault stands alone. Of n services, k of them at fault, that takes some k·log(n) tries.
#pragma once

#include <set>
#include <vector>

#include "services/service_view.h"

namespace lockstep {

class Culprits {
 public:
  bool is_looking() const { return stage_ != Stage::kIdle; }
  const std::set<ServiceKey>& found() const { return found_; }

  // A try was refused in which these were new.
  void begin(std::set<ServiceKey> doubtful);
  void tried(bool taken);
  // A service is another one now.
  void forget(const ServiceKey& key);
  // What the next try leaves out.
  std::set<ServiceKey> left_out() const;

 private:
  enum class Stage : unsigned char { kIdle, kNone, kHalves };
  Stage stage_ = Stage::kIdle;
  std::vector<std::set<ServiceKey>> groups_;  // in doubt; the last one is being tried
  std::set<ServiceKey> found_;
};

}  // namespace lockstep
