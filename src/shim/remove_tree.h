// Removing a tree that somebody else filled: root walks through it, so nothing in it may lead out. Directories are
// entered by descriptor and never through a link or onto another mount, and a path of any depth takes a few
// descriptors.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep {

// DIRECTORY/name and what is in it. Good, too, when it is not there. An error names the first thing that
// stays.
Result<void> remove_tree(int directory, const std::string& name);

}  // namespace lockstep
