// Composer: the full text of a launch, from records and blobs: whose it is, what it runs, in which environment, with
// which part of the node. Front ends add their own words by the hooks.
#pragma once

#include <functional>

#include "controller/node_desk.h"

namespace lockstep {

using BlobReader = std::function<Result<std::string>(const BlobId&)>;

struct ComposerHooks {
  std::function<void(LaunchAttempt&, const Tables&, const Job&, std::size_t grant)> attempt;
  std::function<void(LaunchStep&, const Tables&, const Job&, const Step&, std::size_t place)> step;
};

// Blobs are cached for as long as the result lives, up to a bound.
NodeDesk::Composer make_composer(BlobReader blobs, ComposerHooks hooks);

}  // namespace lockstep
