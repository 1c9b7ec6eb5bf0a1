// The plain functions: what OpenSSL recommends instead would bring the whole library into a program that is started for
// every task.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "container/blob_digest.h"

#include <openssl/sha.h>

namespace lockstep {
namespace {

constexpr std::string_view kAlgorithm = "sha256:";
constexpr std::size_t kHexLength = 64;

}  // namespace

bool is_blob_digest(std::string_view text) {
  return text.size() == kAlgorithm.size() + kHexLength && text.starts_with(kAlgorithm) &&
         text.find_first_not_of("0123456789abcdef", kAlgorithm.size()) == text.npos;
}

std::string hex_of_digest(std::string_view digest) { return std::string(digest.substr(kAlgorithm.size())); }

struct BlobDigest::State {
  SHA256_CTX context{};
};

BlobDigest::BlobDigest() : state_(std::make_unique<State>()) { ::SHA256_Init(&state_->context); }
BlobDigest::~BlobDigest() = default;

void BlobDigest::add(std::string_view bytes) { ::SHA256_Update(&state_->context, bytes.data(), bytes.size()); }

std::string BlobDigest::text() {
  constexpr char kDigits[] = "0123456789abcdef";
  unsigned char digest[SHA256_DIGEST_LENGTH];
  ::SHA256_Final(digest, &state_->context);
  std::string out(kAlgorithm);
  for (const unsigned char byte : digest) {
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

std::string blob_digest_of(std::string_view bytes) {
  BlobDigest digest;
  digest.add(bytes);
  return digest.text();
}

}  // namespace lockstep
