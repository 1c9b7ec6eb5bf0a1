// Questions to the history store within the bounds of the API.
#pragma once

#include "ports/history.h"
#include "views/visibility.h"

namespace lockstep {

struct AnswerMost {
  std::size_t rows = 0, bytes = 0;
};

// kExhausted when the answer has more than that, field "limit" or "reply": it says how to narrow it.
// What is private to others is taken out of their rows. tables: to tell who the viewer is.
Result<std::vector<JobRow>> ask_store(HistoryStore& store, HistoryQuery query, const AnswerMost& most,
                                      const Viewer& viewer, const Tables& tables);

Error reply_too_long(std::size_t bytes_max);

}  // namespace lockstep
