// Folders of claims go when their volumes have gone. Only the front end knows of volumes, so it is asked; a folder goes
// when it was said once that it goes with its volume, and then that nobody knows that any more.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/lasting_volumes.h"

namespace lockstep {

// What becomes of these, in their order.
using AskFates = std::function<Result<std::vector<LastingFate>>(const std::vector<std::string>& names)>;

// home: of root's containers. What was said is noted there (lasting/.passing), so it holds over restarts.
Result<void> sweep_lasting(const std::string& home, const AskFates& ask);
// The same, asked through this node's agent. The exit code of a process that does nothing else.
int sweep_lasting_volumes(const std::string& home);

}  // namespace lockstep
