// Changes as documents that the log takes: an entry of a batch, a chunk of a snapshot.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/mutant.h"
#include "ports/log.h"
#include "wire/entry_stream.h"

namespace lockstep {

// Hands out the pieces of one document after the other, in order, with the number of the last change up to there.
template <class Take>
void write_pieces(Instant at, std::span<const Change> changes, const std::vector<Event>& events,
                  std::size_t document_bytes, LongValues& apart, Take take) {
  Seq last = 0;
  const auto hand_out = [&](std::string document) {
    // Planted: a record that no entry holds goes whole.
    auto pieces = mutant(Mutant::kOversizeAccepted) ? std::vector{std::move(document)}
                                                    : cut_document(std::move(document), kEntryBytesMax);
    for (auto& piece : pieces) take(std::move(piece), last);
  };
  EntryWriter writer(at, &apart);
  for (const Change& change : changes) {
    if (writer.bytes() >= document_bytes)
      hand_out(writer.finish());
    writer.add(change);
    last = change.seq;
  }
  hand_out(writer.finish(events, kEntryBytesMax));
}

}  // namespace lockstep
