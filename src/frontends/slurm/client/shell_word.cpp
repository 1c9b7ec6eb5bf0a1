#include "frontends/slurm/client/shell_word.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace lockstep::slurm {

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string as_shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("/._-+:,@%=").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return plain ? text : shell_quoted(text);
}

}  // namespace lockstep::slurm
