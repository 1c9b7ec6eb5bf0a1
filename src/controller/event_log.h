// What the controller's log tells of every batch: what befell jobs and nodes, and who asked for what was changed by
// hand. Facts come from the core's events, requests from the names of what users asked for. Lines are for people and
// grep; what happened is kept in history.
#pragma once

#include <string>
#include <vector>

#include "controller/engine.h"
#include "model/tables.h"

namespace lockstep {

// The lines of a batch, without time and end; tables as they are behind it.
std::vector<std::string> lines_of(const Engine::Batch& batch, const Tables& tables);

}  // namespace lockstep
