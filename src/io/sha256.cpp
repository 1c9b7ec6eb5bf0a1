#include "io/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "base/check.h"

namespace lockstep {

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(bytes.size() * 2, '0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto b = static_cast<unsigned char>(bytes[i]);
    out[2 * i] = kDigits[b >> 4];
    out[2 * i + 1] = kDigits[b & 15];
  }
  return out;
}

// SHA256() looks the algorithm up by its name at each call, which costs more than a short text's digest.
std::string sha256_hex(std::string_view bytes) {
  static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, nullptr, sha256, nullptr) == 1);
  return hex({reinterpret_cast<const char*>(digest), sizeof digest});
}

std::string sha1(std::string_view bytes) {
  unsigned char digest[SHA_DIGEST_LENGTH];
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, nullptr, EVP_sha1(), nullptr) == 1);
  return {reinterpret_cast<const char*>(digest), sizeof digest};
}

void Sha256::Free::operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::string_view bytes) { CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1); }

std::string Sha256::hex() {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  CHECK(EVP_DigestFinal_ex(context_.get(), digest, nullptr) == 1);
  return lockstep::hex({reinterpret_cast<const char*>(digest), sizeof digest});
}

std::string hmac_sha256_hex(std::string_view key, std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
       bytes.size(), digest, &size);
  return hex({reinterpret_cast<const char*>(digest), size});
}

}  // namespace lockstep
