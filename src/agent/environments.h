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
  // One that comes: forgets what it is told to. Refuses what is here or comes already, and more than
  // kLongEnvironmentsMax: the controller says what there is to forget, and sends no more at once.
  Result<void> announced(const LongEnvironment& head);
  void add(const BlobId& id, std::string_view piece);
  void ended(const BlobId& id);  // no more of it comes: half of one is none
  // Fills in what the launch names; an error when it has not come.
  Result<void> complete(ToAgent& message) const;
  std::size_t bytes() const { return bytes_; }

 private:
  struct One {
    std::size_t wanted = 0;
    std::string lines;
  };
  void forget(const BlobId& id);

  std::map<BlobId, One, std::less<>> known_;
  std::size_t bytes_ = 0;  // wanted, of all
};

}  // namespace lockstep
