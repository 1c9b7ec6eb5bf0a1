// Questions to the history store within the bounds of the API.
#pragma once

#include "ports/history.h"
#include "views/visibility.h"

namespace lockstep {

// kExhausted when the answer has more rows than that: it says how to narrow it.
// What is private to others is taken out of their rows. tables: to tell who the viewer is.
Result<std::vector<JobRow>> ask_store(HistoryStore& store, HistoryQuery query, std::size_t rows_max,
                                      const Viewer& viewer, const Tables& tables);

}  // namespace lockstep
