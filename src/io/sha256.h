// SHA-256 as lower-case hex: blob ids, token hashes, certificate fingerprints, signed tickets.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

std::string sha256_hex(std::string_view bytes);
std::string hmac_sha256_hex(std::string_view key, std::string_view bytes);  // RFC 2104
std::string hex(std::string_view bytes);

}  // namespace lockstep
