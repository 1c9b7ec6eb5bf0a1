#include "io/jwt.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/pki.h"
#include "io/sha256.h"

namespace lockstep {

namespace {

constexpr std::size_t kHalf = 32;            // bytes of one number of P-256
constexpr std::size_t kTokenMax = 16 << 10;  // longer ones are not ours
constexpr std::size_t kVerifiedMost = 4096;
constexpr std::size_t kKeyFileMax = 64 << 10;
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

template <auto Free>
struct FreerOf {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using SigningKey = std::unique_ptr<EVP_PKEY, FreerOf<EVP_PKEY_free>>;
using Digest = std::unique_ptr<EVP_MD_CTX, FreerOf<EVP_MD_CTX_free>>;
using Signature = std::unique_ptr<ECDSA_SIG, FreerOf<ECDSA_SIG_free>>;
using Number = std::unique_ptr<BIGNUM, FreerOf<BN_free>>;
using MemoryBio = std::unique_ptr<BIO, FreerOf<BIO_free>>;

// Base64 for addresses (RFC 4648, section 5), without padding.
std::string url_text(std::string_view bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < there ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k <= there; ++k) out += kDigits[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

std::optional<std::string> url_bytes(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == kDigits.npos)
      return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(digit)) & 0xffffff;
    if ((have += 6) >= 8)
      out += static_cast<char>(bits >> (have -= 8) & 255);
  }
  return out;
}

std::string number_bytes(const BIGNUM* number) {
  std::string out(kHalf, '\0');
  CHECK(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(out.data()), kHalf) == static_cast<int>(kHalf));
  return out;
}

std::string coordinate(const EVP_PKEY* key, const char* which) {
  BIGNUM* number = nullptr;
  CHECK(EVP_PKEY_get_bn_param(key, which, &number) == 1);
  const Number held(number);
  return number_bytes(number);
}

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

struct JwtSigner::Inner {
  SigningKey key;
  std::string id, header;

  // Clients show the same token with each request; checking a signature takes a hundred times as long as a hash.
  std::mutex mutex;
  std::unordered_map<std::string, std::string> verified;  // claims by the token's SHA-256
};

JwtSigner::JwtSigner(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}
JwtSigner::~JwtSigner() = default;

Result<std::unique_ptr<JwtSigner>> JwtSigner::open_or_make(const std::string& path) {
  auto inner = std::make_unique<Inner>();
  if (::access(path.c_str(), F_OK) == 0) {
    const std::string pem = TRY(read_plain(path, Links::kRefused, kKeyFileMax));
    const MemoryBio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    inner->key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
    if (!inner->key || EVP_PKEY_is_a(inner->key.get(), "EC") != 1 || EVP_PKEY_get_bits(inner->key.get()) != 256)
      return Error{
          Errc::kCorrupt,
          format("{} holds no key of P-256: remove it, and the cluster makes a new one at its next start; tokens "
                 "that were given out until then count no more",
                 path),
          {}};
  } else {
    inner->key.reset(EVP_EC_gen("P-256"));
    CHECK(inner->key != nullptr);
    const MemoryBio bio(BIO_new(BIO_s_mem()));
    CHECK(PEM_write_bio_PrivateKey(bio.get(), inner->key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    TRY(write_file_durably(path, {data, static_cast<std::size_t>(size)}, 0600));
  }
  inner->id = sha256_hex(coordinate(inner->key.get(), OSSL_PKEY_PARAM_EC_PUB_X)).substr(0, 32);
  inner->header = url_text(format(R"({{"alg":"ES256","kid":"{}"}})", inner->id));
  return std::unique_ptr<JwtSigner>(new JwtSigner(std::move(inner)));
}

std::string JwtSigner::sign(std::string_view claims) const {
  const std::string text = inner_->header + "." + url_text(claims);
  const Digest digest(EVP_MD_CTX_new());
  std::size_t size = 0;
  CHECK(EVP_DigestSignInit(digest.get(), nullptr, EVP_sha256(), nullptr, inner_->key.get()) == 1);
  CHECK(EVP_DigestSign(digest.get(), nullptr, &size, bytes_of(text), text.size()) == 1);
  std::vector<unsigned char> der(size);
  CHECK(EVP_DigestSign(digest.get(), der.data(), &size, bytes_of(text), text.size()) == 1);
  const unsigned char* at = der.data();
  const Signature signature(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(size)));
  CHECK(signature != nullptr);
  return text + "." +
         url_text(number_bytes(ECDSA_SIG_get0_r(signature.get())) + number_bytes(ECDSA_SIG_get0_s(signature.get())));
}

std::optional<std::string> JwtSigner::verify(std::string_view token) const {
  const auto second = token.rfind('.');
  if (token.size() > kTokenMax || second == token.npos || second <= inner_->header.size() ||
      !token.starts_with(inner_->header + "."))
    return std::nullopt;
  const std::string name = sha256_hex(token);
  {
    const std::lock_guard lock(inner_->mutex);
    if (const auto known = inner_->verified.find(name); known != inner_->verified.end())
      return known->second;
  }
  const std::string_view text = token.substr(0, second);
  const auto halves = url_bytes(token.substr(second + 1));
  const auto claims = url_bytes(text.substr(inner_->header.size() + 1));
  if (!halves || halves->size() != 2 * kHalf || !claims)
    return std::nullopt;
  const Signature signature(ECDSA_SIG_new());
  CHECK(signature != nullptr);
  // Both numbers belong to the signature from here on.
  ECDSA_SIG_set0(signature.get(), BN_bin2bn(bytes_of(*halves), kHalf, nullptr),
                 BN_bin2bn(bytes_of(*halves) + kHalf, kHalf, nullptr));
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  if (size <= 0)
    return std::nullopt;
  const std::unique_ptr<unsigned char, decltype([](unsigned char* bytes) { OPENSSL_free(bytes); })> held(der);
  const Digest digest(EVP_MD_CTX_new());
  CHECK(EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, inner_->key.get()) == 1);
  const bool good =
      EVP_DigestVerify(digest.get(), der, static_cast<std::size_t>(size), bytes_of(text), text.size()) == 1;
  if (!good)
    return std::nullopt;
  const std::lock_guard lock(inner_->mutex);
  if (inner_->verified.size() >= kVerifiedMost)
    inner_->verified.clear();
  inner_->verified.emplace(name, *claims);
  return claims;
}

std::string JwtSigner::key_set() const {
  const EVP_PKEY* key = inner_->key.get();
  return format(R"({{"keys":[{{"use":"sig","kty":"EC","kid":"{}","crv":"P-256","alg":"ES256","x":"{}","y":"{}"}}]}})",
                inner_->id, url_text(coordinate(key, OSSL_PKEY_PARAM_EC_PUB_X)),
                url_text(coordinate(key, OSSL_PKEY_PARAM_EC_PUB_Y)));
}

}  // namespace lockstep
