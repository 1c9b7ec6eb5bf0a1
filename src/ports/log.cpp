#include "ports/log.h"

#include "base/text.h"

namespace lockstep {

Result<void> check_append(std::uint64_t last_index, const std::vector<LogEntry>& entries,
                          const std::vector<Blob>& blobs) {
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

Result<void> check_snapshot(std::uint64_t last_index, std::uint64_t index, const std::vector<std::string>& chunks) {
  if (index > last_index)
    return Error{Errc::kInternal, format("a snapshot at {} is beyond the log's end {}", index, last_index), {}};
  for (const std::string& chunk : chunks)
    if (chunk.size() > kEntryBytesMax)
      return Error{
          Errc::kInternal,
          format("a chunk of the snapshot at {} has {} bytes; {} are allowed", index, chunk.size(), kEntryBytesMax),
          {}};
  return {};
}

}  // namespace lockstep
