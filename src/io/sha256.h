// SHA-256 as lower-case hex: blob ids, token hashes, certificate fingerprints, signed tickets.
#pragma once

#include <memory>
#include <string>
#include <string_view>

typedef struct evp_md_ctx_st EVP_MD_CTX;

namespace lockstep {

std::string sha256_hex(std::string_view bytes);
std::string sha1(std::string_view bytes);  // 20 bytes; for what a protocol asks, as WebSocket's handshake does
// The same of what comes in pieces.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  std::string hex();  // once

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const;
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};
std::string hmac_sha256_hex(std::string_view key, std::string_view bytes);  // RFC 2104
std::string hex(std::string_view bytes);

}  // namespace lockstep
