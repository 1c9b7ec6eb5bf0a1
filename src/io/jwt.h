// JSON Web Tokens signed by the cluster (RFC 7515, RFC 7519): ECDSA P-256, "ES256".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

class JwtSigner {
 public:
  // Reads the key in the file, or makes it (0600).
  static Result<std::unique_ptr<JwtSigner>> open_or_make(const std::string& path);
  ~JwtSigner();

  std::string sign(std::string_view claims) const;  // JSON; the token is "HEADER.CLAIMS.SIGNATURE"
  // The claims of a token that this key has signed; nothing: of any other. Whether they still hold is not looked at.
  std::optional<std::string> verify(std::string_view token) const;
  // {"keys":[…]}: the public key as others find it (RFC 7517).
  std::string key_set() const;

 private:
  struct Inner;
  explicit JwtSigner(std::unique_ptr<Inner> inner);
  std::unique_ptr<Inner> inner_;
};

}  // namespace lockstep
