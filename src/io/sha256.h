// SHA-256 as lower-case hex: blob ids, token hashes, certificate fingerprints.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

std::string sha256_hex(std::string_view bytes);
std::string hex(std::string_view bytes);

}  // namespace lockstep
