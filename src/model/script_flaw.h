// What keeps a text from being a batch script, asked by clients before they send it and by the controller that takes
// it.
#pragma once

#include <string_view>

namespace lockstep {

enum class ScriptFlaw : unsigned char {
  kNone,
  kEmpty,
  kBlank,          // nothing but blanks and line ends
  kNoInterpreter,  // its first line does not begin with #!
  kNul,            // holds a NUL character: it is a binary file
  kDosLineEnds,    // \r\n somewhere: the interpreter would be sought by a name that ends in \r, and words would
};

ScriptFlaw flaw_in_script(std::string_view text);

}  // namespace lockstep
