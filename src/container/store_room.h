// Room for a user's images: what they may take at most, and what goes when it is not enough, which is whatever nobody
// has used for longest. Images that containers on this node are made of stay.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "wire/store_limits.h"

namespace lockstep {

class StoreRoom {
 public:
  // home: of the user's images; the limits lie beside it.
  explicit StoreRoom(std::string home);

  // So that so many bytes more may be had, as far as what is not needed can go. Those at once are certainly needed, the
  // others perhaps. kExhausted: not even that many.
  Result<void> make(std::uint64_t certainly, std::uint64_t perhaps) const;
  // While something is written: kExhausted when the file system has less left than images leave it.
  Result<void> check() const;
  // The same, and when what is written, of so many bytes by now, is more than the user may have at all.
  Result<void> check(std::uint64_t written) const;
  // What is not needed goes, until so many bytes have: what was used last stays longest.
  void drop(std::int64_t bytes) const;
  // An image that was unpacked: how much it takes is noted in its folder.
  Result<void> note_size(const std::string& folder) const;
  // The same when it lies among the others: kExhausted when it is too much with them, whatever goes.
  Result<void> keep(const std::string& folder) const;

 private:
  Result<std::int64_t> gain(std::int64_t wanted) const;  // how many bytes more there may be, less than 0: too many are
  Error full(std::uint64_t wanted, std::int64_t may) const;
  Result<std::int64_t> quota() const;     // bytes
  std::int64_t free_above_floor() const;  // bytes of the file system, less those that images leave

  std::string home_;
  StoreLimits limits_;
};

}  // namespace lockstep
