// HistoryStore: accounting. A reader of the log with a durable cursor; the log is trimmed only behind it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/change.h"
#include "model/history.h"
#include "model/tables.h"

namespace lockstep {

class HistoryStore {
 public:
  virtual ~HistoryStore() = default;
  virtual Result<std::uint64_t> cursor() = 0;  // log index up to which everything is in
  // Takes the changes of entries up to index in one transaction. tables: the reader's view after them (for names).
  virtual Result<void> take(std::uint64_t index, std::span<const Change> changes, const Tables& tables) = 0;
  virtual Result<std::vector<JobRow>> query(const HistoryQuery& query) = 0;
};

}  // namespace lockstep
