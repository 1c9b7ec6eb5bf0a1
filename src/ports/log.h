// Log: the cluster's history on durable storage. One entry per batch of commands; an entry counts once append()
// returns.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
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

// What is done in one transaction beside appends, whose callers wait for it.
inline constexpr std::size_t kPartBytesMax = 2 << 20;  // of a snapshot's chunks
inline constexpr std::size_t kSweepBytes = 8 << 20;    // of blobs that go
inline constexpr std::size_t kSweepRows = 256;         // blobs that go
inline constexpr std::size_t kSweepLook = 2048;        // blobs that are looked at

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

  // A snapshot covers every entry up to its index. Chunks are encoded like entries, and as large at most. It is written
  // in parts, in order, each durable by itself, and takes the place of the one before with its last part. A first part
  // gives up a snapshot that was begun and not ended. What check_snapshot() refuses is refused.
  struct SnapshotPart {
    std::uint64_t index = 0;
    std::size_t first = 0;  // number of its first chunk
    std::span<const std::string> chunks;
    bool last = true;
  };
  virtual Result<void> write_snapshot(const SnapshotPart& part) = 0;
  // All parts, for who has nobody waiting.
  Result<void> write_whole_snapshot(std::uint64_t index, const std::vector<std::string>& chunks);
  struct Snapshot {
    std::uint64_t index = 0;  // 0 = none
    std::vector<std::string> chunks;
  };
  virtual Result<Snapshot> read_snapshot() = 0;

  // Forgets entries with index <= upto. Never beyond the snapshot's index.
  virtual Result<void> trim(std::uint64_t upto) = 0;

  virtual Result<std::string> blob(const BlobId& id) = 0;  // kNotFound when absent
  virtual Result<bool> has_blob(const BlobId& id) = 0;
  // Forgets blobs for which keep(id) is false, in the order of their ids and from `from` on, until the piece is full.
  // The id with which the next piece begins; "" = that was the last. What is left of former snapshots goes, too.
  virtual Result<BlobId> sweep_blobs(const BlobId& from, const std::function<bool(const BlobId&)>& keep) = 0;
};

// How much one call of sweep_blobs() does, stated once for the real log and its twins.
class SweepPiece {
 public:
  void look() { ++looked_; }
  void drop(std::size_t bytes) {
    ++gone_;
    bytes_ += bytes;
  }
  bool full() const { return looked_ >= kSweepLook || gone_ >= kSweepRows || bytes_ >= kSweepBytes; }

 private:
  std::size_t looked_ = 0, gone_ = 0, bytes_ = 0;
};

// How many of the chunks, from `first` on, make a part.
std::size_t part_length(const std::vector<std::string>& chunks, std::size_t first);

// What no log takes, stated once for the real one and its twins: an entry that does not follow last_index, one of more
// than kEntryBytesMax, a blob whose id is no SHA-256. An error is a bug of the caller, never the disk's.
Result<void> check_append(std::uint64_t last_index, const std::vector<LogEntry>& entries,
                          const std::vector<Blob>& blobs);
// A snapshot beyond the log's end, a chunk of more than kEntryBytesMax, a part of more than kPartBytesMax or one that
// follows neither nothing nor the `begun` chunks of its snapshot.
Result<void> check_snapshot(std::uint64_t last_index, const Log::SnapshotPart& part, std::size_t begun);

}  // namespace lockstep
