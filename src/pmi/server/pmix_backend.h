// PMIx for the ranks of one node: the server half of the PMIx library, which is looked for when it is needed, so that
// nodes without it serve everything else.
#pragma once

#include <memory>

#include "pmi/backend.h"

namespace lockstep {

std::unique_ptr<PmiBackend> make_pmix_backend(PmiWorld world, PmiBackend::Up up);

}  // namespace lockstep
