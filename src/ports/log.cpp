#include "ports/log.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"

namespace lockstep {

Result<void> check_term(Term leader, Term term) {
  if (leader == term || mutant(Mutant::kStaleTermAccepted))
    return {};
  return conflict(format("another controller writes this log: its term is {}, ours was {}", leader, term));
}

Result<void> check_append(std::uint64_t last_index, std::span<const LogEntry> entries, std::span<const Blob> blobs) {
  std::uint64_t expected = last_index;
  for (const LogEntry& entry : entries) {
    if (entry.index != ++expected)
      return conflict(format("log entry {} does not follow {}", entry.index, expected - 1));
    if (entry.bytes.size() > kEntryBytesMax)
      return Error{Errc::kInternal,
                   format("log entry {} has {} bytes; {} are allowed", entry.index, entry.bytes.size(), kEntryBytesMax),
                   {}};
  }
  for (const Blob& blob : blobs)
    if (blob.id.size() != kBlobIdLength)
      return Error{Errc::kInternal, format("a blob is named \"{}\", which is no SHA-256", blob.id), {}};
  return {};
}

Result<void> check_snapshot(std::uint64_t last_index, const Log::SnapshotPart& part, std::size_t begun) {
  const auto refused = [&](const std::string& why) {
    return Error{Errc::kInternal, format("a snapshot at {} {}", part.index, why), {}};
  };
  if (part.index > last_index)
    return refused(format("is beyond the log's end {}", last_index));
  if (part.first != 0 && part.first != begun)
    return refused(format("goes on with chunk {} where {} are stored", part.first, begun));
  std::size_t bytes = 0;
  for (const std::string& chunk : part.chunks) {
    if (chunk.size() > kEntryBytesMax)
      return refused(format("has a chunk of {} bytes; {} are allowed", chunk.size(), kEntryBytesMax));
    bytes += chunk.size();
  }
  if (bytes > kPartBytesMax)
    return refused(format("has a part of {} bytes; {} are allowed", bytes, kPartBytesMax));
  return {};
}

std::size_t part_length(const std::vector<std::string>& chunks, std::size_t first) {
  std::size_t bytes = 0, count = 0;
  while (first + count < chunks.size() && bytes + chunks[first + count].size() <= kPartBytesMax)
    bytes += chunks[first + count++].size();
  return first < chunks.size() ? std::max<std::size_t>(count, 1) : 0;
}

Result<void> Log::write_whole_snapshot(Term term, std::uint64_t index, const std::vector<std::string>& chunks) {
  std::size_t first = 0;
  do {
    const std::size_t count = part_length(chunks, first);
    TRY(write_snapshot(term, {.index = index,
                              .first = first,
                              .chunks = std::span(chunks).subspan(first, count),
                              .last = first + count == chunks.size()}));
    first += count;
  } while (first < chunks.size());
  return {};
}

}  // namespace lockstep
