// Environments: the long ones that the controller has sent over this link, once for all launches that name them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "wire/long_environment.h"

namespace lockstep {

class Environments {
 public:
  // The controller says what there is to forget; more at once it would not send.
  static constexpr std::size_t kBytesMax = 256u << 20;

  // One that comes: forgets what it is told to. Refuses what is too much.
  Result<void> announced(const LongEnvironment& head);
  void add(const BlobId& id, std::string_view piece);
  // Fills in what the launch names; an error when it has not come.
  Result<void> complete(ToAgent& message) const;
  std::size_t bytes() const { return bytes_; }

 private:
  struct One {
    std::size_t wanted = 0;
    std::string lines;
  };
  std::map<BlobId, One, std::less<>> known_;
  std::size_t bytes_ = 0;  // wanted, of all
};

}  // namespace lockstep
