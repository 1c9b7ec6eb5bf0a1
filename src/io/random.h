// Secrets: random bytes from the kernel. Everything that must replay draws from base/rng.h instead.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

std::string random_hex(std::size_t bytes);  // twice as many characters

}  // namespace lockstep
