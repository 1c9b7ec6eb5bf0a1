// Log: the cluster's history on durable storage, with one writer at a time. One entry per batch of commands; an entry
// counts once its append has ended with Stored::kYes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/ids.h"
#include "ports/blobs.h"

namespace lockstep {

inline constexpr std::size_t kEntryBytesMax = 1 << 20;  // of an entry, and of a snapshot's chunk
inline constexpr std::size_t kReadBytesAtOnce = 16
                                                << 20;  // read() hands out no more in one go, but for the first entry

// Of a snapshot's chunks, in one transaction: appends wait for it.
inline constexpr std::size_t kPartBytesMax = 2 << 20;

// Who writes. Every leader's term is higher than all before it (the number that Raft counts elections with); 0: nobody.
using Term = std::uint64_t;

struct LogEntry {
  std::uint64_t index = 0;  // 1, 2, 3 … without gaps
  Seq last_seq = 0;         // of the changes inside
  bool closing = true;
  std::string bytes;           // wire/entry_stream.h: larger outcomes are cut, and count with their closing entry
  std::uint64_t next_job = 0;  // ids below were given out; kept beside the log only, for the day it loses this entry
};

enum class Stored : unsigned char {
  kYes,      // durable: synced, not just written
  kNo,       // not there, and never will be
  kUnknown,  // it may be there: reading tells
  kDeposed,  // not there: another leader writes now, and takes nothing from this term any more
};

class Log {
 public:
  virtual ~Log() = default;

  // Begins a term, durably. When it returns, nothing of a lower term can be stored any more.
  virtual Result<Term> lead() = 0;

  struct End {
    Stored stored = Stored::kYes;
    std::string why;  // unless it is stored
  };
  using Done = std::function<void(const End&)>;
  // All or nothing, with the blobs that were put since the append before it. One at a time. The entries must live until
  // `done`, which is called once: before append() returns, or out of poll(). After anything but kYes the caller must
  // assume nothing and reload. What check_append() refuses is not written.
  virtual void append(Term term, std::span<const LogEntry> entries, Done done) = 0;
  // poll() calls `done` if the append has ended; wait() sleeps until it may have.
  virtual void poll() {}
  virtual void wait() {}

  // Entries with index >= from, ascending: at most count, and at most about kReadBytesAtOnce. None = the log's end.
  virtual Result<std::vector<LogEntry>> read(std::uint64_t from, std::size_t count) = 0;
  virtual Result<std::uint64_t> last_index() = 0;  // 0 = empty

  // A snapshot covers every entry up to its index. Chunks are encoded like entries, and as large at most. It is written
  // in parts, in order, each durable by itself, and takes the place of the one before with its last part. A first part
  // gives up a snapshot that was begun and not ended. What check_snapshot() refuses is refused, and so is the deposed.
  struct SnapshotPart {
    std::uint64_t index = 0;
    std::size_t first = 0;  // number of its first chunk
    std::span<const std::string> chunks;
    bool last = true;
  };
  virtual Result<void> write_snapshot(Term term, const SnapshotPart& part) = 0;
  // All parts, for who has nobody waiting.
  Result<void> write_whole_snapshot(Term term, std::uint64_t index, const std::vector<std::string>& chunks);
  struct Snapshot {
    std::uint64_t index = 0;  // 0 = none
    std::vector<std::string> chunks;
  };
  virtual Result<Snapshot> read_snapshot() = 0;

  // Forgets entries with index <= upto. Never beyond the snapshot's index. Refused to the deposed.
  virtual Result<void> trim(Term term, std::uint64_t upto) = 0;
};

// How many of the chunks, from `first` on, make a part.
std::size_t part_length(const std::vector<std::string>& chunks, std::size_t first);

// What no log takes, stated once for the real one and its twins: an entry that does not follow last_index, one of more
// than kEntryBytesMax, a blob whose id is no SHA-256. An error is a bug of the caller, never the disk's.
Result<void> check_append(std::uint64_t last_index, std::span<const LogEntry> entries, std::span<const Blob> blobs);
// kConflict where another one than `term` leads.
Result<void> check_term(Term leader, Term term);
// A snapshot beyond the log's end, a chunk of more than kEntryBytesMax, a part of more than kPartBytesMax or one that
// follows neither nothing nor the `begun` chunks of its snapshot.
Result<void> check_snapshot(std::uint64_t last_index, const Log::SnapshotPart& part, std::size_t begun);

}  // namespace lockstep
