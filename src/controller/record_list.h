// A list of records as a page, written piece by piece: {"qoss":[{…},{…}]}.
#pragma once

#include <vector>

#include "model/kinds.h"
#include "views/read_context.h"

namespace lockstep {

inline constexpr std::size_t kListPieceBytes = 256 << 10;  // of a list, written in one turn

// The records as the viewer may see them. It holds them, and looks at nothing else: any thread may write it.
PageReply record_list(Kind kind, const Viewer& viewer, std::vector<Record> records);

}  // namespace lockstep
