// Log: the cluster's history on durable storage. One entry per batch of commands; an entry counts once append()
// returns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/ids.h"

namespace lockstep {

inline constexpr std::size_t kEntryBytesMax = 1 << 20;  // of an entry, and of a snapshot's chunk
inline constexpr std::size_t kReadBytesAtOnce = 16
                                                << 20;  // read() hands out no more in one go, but for the first entry
inline constexpr std::size_t kBlobIdLength = 64;        // hexadecimal SHA-256

struct LogEntry {
  std::uint64_t index = 0;  // 1, 2, 3 … without gaps
  Seq last_seq = 0;         // of the changes inside
  bool closing = true;
  std::string bytes;           // wire/entry_stream.h: larger outcomes are cut, and count with their closing entry
  std::uint64_t next_job = 0;  // ids below were given out; kept beside the log only, for the day it loses this entry
};

struct Blob {
  BlobId id;
  std::string bytes;
};

class Log {
 public:
  virtual ~Log() = default;

  // Durable when it returns, blobs included: synced, not just written. All or nothing. After an error the caller must
  // assume nothing and reload. What check_append() refuses is refused before anything is written.
  virtual Result<void> append(const std::vector<LogEntry>& entries, const std::vector<Blob>& blobs) = 0;

  // Entries with index >= from, ascending: at most count, and at most about kReadBytesAtOnce. None = the log's end.
  virtual Result<std::vector<LogEntry>> read(std::uint64_t from, std::size_t count) = 0;
  virtual Result<std::uint64_t> last_index() = 0;  // 0 = empty

  // A snapshot covers every entry up to its index. Chunks are encoded like entries, and as large at most. Replaces the
  // previous one, durably. What check_snapshot() refuses is refused.
  virtual Result<void> write_snapshot(std::uint64_t index, const std::vector<std::string>& chunks) = 0;
  struct Snapshot {
    std::uint64_t index = 0;  // 0 = none
    std::vector<std::string> chunks;
  };
  virtual Result<Snapshot> read_snapshot() = 0;

  // Forgets entries with index <= upto. Never beyond the snapshot's index.
  virtual Result<void> trim(std::uint64_t upto) = 0;

  virtual Result<std::string> blob(const BlobId& id) = 0;  // kNotFound when absent
  virtual Result<bool> has_blob(const BlobId& id) = 0;
  // Forgets blobs for which keep(id) is false.
  virtual Result<void> sweep_blobs(const std::function<bool(const BlobId&)>& keep) = 0;
};

// What no log takes, stated once for the real one and its twins: an entry that does not follow last_index, one of more
// than kEntryBytesMax, a blob whose id is no SHA-256. An error is a bug of the caller, never the disk's.
Result<void> check_append(std::uint64_t last_index, const std::vector<LogEntry>& entries,
                          const std::vector<Blob>& blobs);
// A snapshot beyond the log's end, a chunk of more than kEntryBytesMax.
Result<void> check_snapshot(std::uint64_t last_index, std::uint64_t index, const std::vector<std::string>& chunks);

}  // namespace lockstep
