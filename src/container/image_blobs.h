// Blobs of images in a user's folder, by their digests. A blob is there whole or not at all, and is what its name says:
// what others hand us is counted and digested on its way in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "container/blob_digest.h"
#include "container/open_file.h"

namespace lockstep {

class ImageBlobs {
 public:
  explicit ImageBlobs(const std::string& home) : folder_(home + "/blobs/sha256") {}

  std::string path(std::string_view digest) const { return folder_ + "/" + hex_of_digest(digest); }
  bool has(std::string_view digest) const;
  void used(std::string_view digest) const;  // it is needed now
  // A short one. kNotFound when it is not there, kExhausted when it is longer.
  Result<std::string> read(std::string_view digest, std::size_t most) const;
  // kCorrupt: these bytes have another digest.
  Result<void> keep(std::string_view digest, std::string_view bytes) const;

  // One that comes in pieces; of one that does not come to its end nothing is left.
  class Incoming {
   public:
    // folder: on the same file system, where it lies until it is whole.
    static Result<Incoming> open(const std::string& folder, std::string digest, std::uint64_t size);
    Incoming(Incoming&&) noexcept = default;
    ~Incoming();
    Result<void> add(std::string_view bytes);
    std::uint64_t left() const { return left_; }
    Result<void> finish(const ImageBlobs& store);

   private:
    Incoming() = default;
    std::string digest_, path_;
    std::uint64_t left_ = 0;
    OpenFile file_;
    std::unique_ptr<BlobDigest> content_;
  };

 private:
  std::string folder_;
};

}  // namespace lockstep
