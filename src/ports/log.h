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

inline constexpr std::size_t kEntryBytesMax = 1
                                              << 20;  // larger outcomes are cut; only a closing entry makes them count

struct LogEntry {
  std::uint64_t index = 0;  // 1, 2, 3 … without gaps
  Seq last_seq = 0;         // of the changes inside
  bool closing = true;
  std::string bytes;  // wire/log_codec.h
};

struct Blob {
  BlobId id;
  std::string bytes;
};

class Log {
 public:
  virtual ~Log() = default;

  // Durable when it returns, blobs included: synced, not just written. All or nothing. After an error the caller must
  // assume nothing and reload.
  virtual Result<void> append(const std::vector<LogEntry>& entries, const std::vector<Blob>& blobs) = 0;

  // Entries with index >= from, at most count, ascending.
  virtual Result<std::vector<LogEntry>> read(std::uint64_t from, std::size_t count) = 0;
  virtual Result<std::uint64_t> last_index() = 0;  // 0 = empty

  // A snapshot covers every entry up to its index. Chunks are encoded like entries. Replaces the previous one, durably.
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

}  // namespace lockstep
