// Which known word somebody may have meant: for refusals that say "did you mean".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// The known word that takes fewest changes of a letter, or one that begins like it; "": none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);
// ": did you mean \"time_limit\"?", or what is known: "; known are: a, b".
std::string hint(std::string_view word, std::span<const std::string_view> known);

}  // namespace lockstep
