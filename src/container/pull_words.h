// Why an image did not come, without what only the tool that fetches it means: which of its own steps failed, and the
// image's name once more.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// error: as run_tool gives it: "skopeo: Error parsing image name \"docker://r/i:1\": reading manifest 1 in r/i:
// manifest unknown" becomes "reading manifest 1 in r/i: manifest unknown".
std::string pull_words(std::string_view error);

}  // namespace lockstep
