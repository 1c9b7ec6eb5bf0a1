// Base64 as JSON has it for bytes (RFC 4648, section 4, with padding).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::kube {

std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);  // nothing: it is none; line breaks are skipped

}  // namespace lockstep::kube
