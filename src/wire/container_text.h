// A container as text, for those who hand it on: the shim's launch record, and the program that makes it on the node.
// JSON without line breaks or NUL, so that it can travel in an environment.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/program.h"

namespace lockstep {

std::string encode_container(const Container& container);
Result<Container> decode_container(std::string_view text);

}  // namespace lockstep
