// SimLog: a Log on a simulated disk, as strict as the real one. What is written is lost with a crash unless it was
// synced, but for some of its first entries; appends can fail, with or without having reached the disk; the controller
// can die at every boundary of a commit, which may end long after it began. What became durable is kept aside for the
// checkers, however often the log is trimmed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ports/log.h"

namespace lockstep::sim {

// Thrown out of a commit: the controller dies here. Nothing above may catch it but the simulated machine.
struct Crash {};

enum class CommitFault : unsigned char {
  kNone,
  kFails,            // nothing was written
  kFailsYetWritten,  // the error came after the data
  kCrashBeforeWrite,
  kCrashBeforeSync,      // written, not synced: lost, or only the first entries are left, without the closing one
  kCrashBeforeSyncKept,  // written, not synced, and by luck on disk
  kCrashAfterSync,       // durable, but nobody was told
};

class SimLog : public Log, public BlobStore {
 public:
  Result<Term> lead() override;
  void append(Term term, std::span<const LogEntry> entries, Done done) override;
  void poll() override;
  Result<std::vector<LogEntry>> read(std::uint64_t from, std::size_t count) override;
  Result<std::uint64_t> last_index() override;
  Result<void> write_snapshot(Term term, const SnapshotPart& part) override;
  Result<Snapshot> read_snapshot() override;
  Result<void> trim(Term term, std::uint64_t upto) override;
  void put(std::span<const Blob> blobs) override { put_ = blobs; }
  Result<std::string> blob(const BlobId& id) override;
  Result<bool> has_blob(const BlobId& id) override;
  Result<BlobId> sweep_blobs(Term term, const BlobId& from, const std::function<bool(const BlobId&)>& keep) override;

  // Asked at every commit, snapshot and trim; unset = no faults.
  std::function<CommitFault()> draw_fault;
  // How many of so many entries are left of an append that a crash cut short: less than all. Unset = none.
  std::function<std::size_t(std::size_t)> draw_left;
  std::function<bool()> draw_late;                               // whether an append ends in poll() only; unset = none
  std::function<void(std::span<const LogEntry>)> before_append;  // may throw Crash
  // The writer is gone while its append is under way: all of it is stored, or nothing.
  void abandon(bool stored);
  std::function<void(const Error&)> on_refused;  // the caller broke a rule of check_append()

  // --- for the checkers ---
  const std::map<std::uint64_t, LogEntry>& archive() const { return archive_; }  // all that ever became durable
  Result<std::string> archived_blob(const BlobId& id) const;                     // likewise
  Seq durable_seq() const { return durable_seq_; }                               // of the last closing entry
  std::string broken;  // what no log may do and this one did; "" = nothing
  std::uint64_t durable_index() const { return last_; }

 private:
  struct Under {  // an append that has not ended
    Term term = 0;
    std::span<const LogEntry> entries;
    std::span<const Blob> blobs;
    Done done;
  };

  template <class Write, class WriteSome>
  Stored commit(Write write, WriteSome write_some);
  template <class Write>
  Result<void> commit(Term term, Write write);
  Result<void> check_leader(Term term);
  void end(const Under& append);
  void store_all(const Under& append);
  void store(const LogEntry& entry);
  Error refuse(Error why);

  std::map<std::uint64_t, LogEntry> entries_;
  std::map<std::uint64_t, LogEntry> archive_;
  Snapshot snapshot_, begun_;  // begun_: what is written of the next one
  std::map<BlobId, std::string> blobs_, archived_blobs_;
  std::uint64_t last_ = 0;
  Seq durable_seq_ = 0;
  Term leader_ = 0;
  std::span<const Blob> put_;
  std::optional<Under> under_way_;
};

}  // namespace lockstep::sim
