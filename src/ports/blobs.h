// BlobStore: scripts, environments and long values, each named by the SHA-256 of its bytes, beside the log whose
// entries name them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "model/ids.h"

namespace lockstep {

inline constexpr std::size_t kBlobIdLength = 64;  // hexadecimal

// What one sweep does in one transaction: appends wait for it.
inline constexpr std::size_t kSweepBytes = 8 << 20;  // of blobs that go
inline constexpr std::size_t kSweepRows = 256;       // blobs that go
inline constexpr std::size_t kSweepLook = 2048;      // blobs that are looked at

struct Blob {
  BlobId id;
  std::string bytes;
};

class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // Durable before, or with, the next append to the log; where that is not stored they are forgotten. They must live
  // until it is done.
  virtual void put(std::span<const Blob> blobs) = 0;
  virtual Result<std::string> blob(const BlobId& id) = 0;  // kNotFound when absent
  virtual Result<bool> has_blob(const BlobId& id) = 0;
  // Forgets blobs for which keep(id) is false, in the order of their ids and from `from` on, until the piece is full.
  // The id with which the next piece begins; "" = that was the last. What is left of former snapshots goes, too.
  // Refused to the deposed (ports/log.h).
  virtual Result<BlobId> sweep_blobs(std::uint64_t term, const BlobId& from,
                                     const std::function<bool(const BlobId&)>& keep) = 0;
};

// How much one call of sweep_blobs() does, stated once for the real store and its twins.
class SweepPiece {
 public:
  void look() { ++looked_; }
  void drop(std::size_t bytes) {
    ++gone_;
    bytes_ += bytes;
  }
  bool full() const { return looked_ >= kSweepLook || gone_ >= kSweepRows || bytes_ >= kSweepBytes; }

 private:
  std::size_t looked_ = 0, gone_ = 0, bytes_ = 0;
};

}  // namespace lockstep
