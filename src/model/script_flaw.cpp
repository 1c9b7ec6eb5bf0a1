#include "model/script_flaw.h"

namespace lockstep {

ScriptFlaw flaw_in_script(std::string_view text) {
  if (text.empty())
    return ScriptFlaw::kEmpty;
  if (text.find_first_not_of(" \t\r\v\f\n") == text.npos)
    return ScriptFlaw::kBlank;
  if (!text.starts_with("#!"))
    return ScriptFlaw::kNoInterpreter;
  if (text.find('\0') != text.npos)
    return ScriptFlaw::kNul;
  return text.find("\r\n") != text.npos ? ScriptFlaw::kDosLineEnds : ScriptFlaw::kNone;
}

}  // namespace lockstep
