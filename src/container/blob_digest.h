// What names a blob: the SHA-256 of its bytes, as registries write it ("sha256:" and 64 digits).
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

bool is_blob_digest(std::string_view text);

// The 64 digits, without the name of the algorithm.
std::string hex_of_digest(std::string_view digest);

class BlobDigest {
 public:
  BlobDigest();
  ~BlobDigest();
  BlobDigest(BlobDigest&&) = delete;
  void add(std::string_view bytes);
  std::string text();  // once, when everything was added

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string blob_digest_of(std::string_view bytes);

}  // namespace lockstep
