// A container's layers, written down as a squashfs image that enroot and pyxis read.
#pragma once

#include <string>

#include "base/result.h"
#include "container/box.h"

namespace lockstep {

// Whole under its name, or not at all. The plan's own place takes the mount.
Result<void> write_image(const BoxPlan& layers, const std::string& path);

}  // namespace lockstep
