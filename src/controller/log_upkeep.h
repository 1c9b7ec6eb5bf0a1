// LogUpkeep: keeps the log from growing without end. When enough has come since the last snapshot, another one is
// drafted and stored, part by part; what it makes needless is trimmed, as far as readers allow; and blobs that nobody
// names any more are swept. All of it goes in pieces, a piece a turn, so that nobody waits for a gigabyte. What fails
// is given up until the next snapshot: it costs room, and nothing else.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/change.h"
#include "model/tables.h"
#include "ports/log.h"
#include "wire/long_values.h"

namespace lockstep {

// Every record as of one entry of the log. Encoding it takes long and needs nothing but the records, which nobody
// changes: any thread may do it.
struct SnapshotDraft {
  std::uint64_t index = 0;  // of that entry
  Instant at;
  std::vector<Change> records;  // empty once they are encoded
  std::unique_ptr<LongValues> apart;
  std::vector<std::string> chunks;

  void encode();
};

class LogUpkeep {
 public:
  struct Due {  // a snapshot is, when so much has come since the last one
    std::uint64_t entries = 0;
    std::size_t bytes = 0;
  };
  LogUpkeep(Log& log, BlobStore& blobs, LongValues& apart, Due due)
      : log_(log), blobs_(blobs), apart_(apart), due_(due) {}

  // The log was read from its snapshot on. entry_bytes: of the entries behind that, by index. What was begun rests on
  // another state, and is given up; a draft that is being encoded is not.
  void loaded(std::uint64_t snapshot_index, std::uint64_t trimmed, std::map<std::uint64_t, std::size_t> entry_bytes);
  void appended(std::span<const LogEntry> entries, std::vector<Blob> blobs);
  // It was stored a short while ago, and no sweep has taken it since.
  bool knows(const BlobId& blob) const { return known_blobs_.contains(blob); }

  // One at a time: none is due from a draft on until what the snapshot makes needless is gone, too.
  bool snapshot_due(std::uint64_t last_index) const;
  std::shared_ptr<SnapshotDraft> draft(std::uint64_t index, Instant at, std::vector<Change> records);
  // How a draft goes on once it is encoded. Meanwhile the log may have grown: what follows it is read behind it.
  void store(std::shared_ptr<SnapshotDraft> draft);
  void drop_draft() { busy_ = false; }

  void turn(Term term, const Tables& tables);
  bool has_more() const { return has_more_; }
  // Readers have taken everything up to here.
  void raise_floor(std::uint64_t index);

 private:
  enum class Piece : unsigned char { kThrough, kMore, kFailed };

  // Which blobs are still named. While the records are looked at, and while blobs go, others are stored: known_blobs_
  // has those. No snapshot is drafted meanwhile: it would name what was needed when it was begun.
  struct Sweep {
    bool begun = false;
    bool marked = false;
    JobId next_job;
    StepKey next_step;
    std::unordered_set<std::string> used;
    std::unordered_set<const void*> held;
    BlobId next_blob;
  };

  Piece store_piece(Term term);
  Piece trim_piece(Term term);
  Piece sweep_piece(Term term, const Tables& tables);
  Piece end_sweep(Piece how);
  bool mark_some(const Tables& tables);
  bool mark_jobs(const Tables& tables, std::size_t& left);
  bool mark_steps(const Tables& tables, std::size_t& left);
  std::uint64_t one_trim_up_to(std::uint64_t index) const;

  Log& log_;
  BlobStore& blobs_;
  LongValues& apart_;
  Due due_;
  std::unordered_set<std::string> known_blobs_;
  std::uint64_t snapshot_index_ = 0;
  std::uint64_t loaded_snapshot_ = 0;  // the snapshot's index when the log was read
  std::uint64_t trimmed_ = 0;
  std::uint64_t floor_ = 0;
  std::map<std::uint64_t, std::size_t> entry_bytes_;  // of entries that are there, by index
  std::size_t tail_bytes_ = 0;              // of entries and blobs that came since the last snapshot was begun
  bool busy_ = false;                       // a snapshot is being encoded, or stored, or what it makes needless goes
  bool has_more_ = false;                   // the last turn left some
  std::shared_ptr<SnapshotDraft> storing_;  // encoded; its first stored_chunks_ are in the log
  std::size_t stored_chunks_ = 0;
  std::optional<Sweep> sweep_;
};

}  // namespace lockstep
