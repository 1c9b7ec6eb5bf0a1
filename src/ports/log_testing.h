// For tests of logs: one append by who has just taken the lead.
#pragma once

#include <vector>

#include "ports/log.h"

namespace lockstep {

template <class Store>  // a Log that is its own BlobStore
Result<void> append_to(Store& log, const std::vector<LogEntry>& entries, const std::vector<Blob>& blobs = {}) {
  const Term term = TRY(log.lead());
  Log::End end{Stored::kUnknown, "it has not ended"};
  log.put(blobs);
  log.append(term, entries, [&](const Log::End& how) { end = how; });
  if (end.stored != Stored::kYes)
    return Error{Errc::kIo, end.why, {}};
  return {};
}

}  // namespace lockstep
