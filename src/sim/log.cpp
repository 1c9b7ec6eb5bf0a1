#include "sim/log.h"

#include <utility>

#include "base/text.h"

namespace lockstep::sim {

namespace {

constexpr const char* kDiskFailed = "the simulated disk failed";

}  // namespace

template <class Write, class WriteSome>
Stored SimLog::commit(Write write, WriteSome write_some) {
  switch (draw_fault ? draw_fault() : CommitFault::kNone) {
    case CommitFault::kNone: write(); return Stored::kYes;
    case CommitFault::kFails: return Stored::kNo;
    case CommitFault::kFailsYetWritten: write(); return Stored::kUnknown;
    case CommitFault::kCrashBeforeWrite: throw Crash{};
    case CommitFault::kCrashBeforeSync: write_some(); throw Crash{};
    case CommitFault::kCrashBeforeSyncKept:
    case CommitFault::kCrashAfterSync: write(); throw Crash{};
  }
  return Stored::kUnknown;
}

template <class Write>
Result<void> SimLog::commit(Term term, Write write) {
  TRY(check_leader(term));
  if (commit(write, [] {}) != Stored::kYes)
    return Error{Errc::kIo, kDiskFailed, {}};
  return {};
}

// What an old leader is allowed all the same, the checkers find here, whatever check_term() says.
Result<void> SimLog::check_leader(Term term) {
  TRY(check_term(leader_, term));
  if (term != leader_)
    broken = format("the log took something of term {} in term {}", term, leader_);
  return {};
}

Result<Term> SimLog::lead() { return ++leader_; }

void SimLog::append(Term term, std::span<const LogEntry> entries, Done done) {
  const Under append{term, entries, std::exchange(put_, {}), std::move(done)};
  if (under_way_)
    broken = "an append began before the one before it had ended";
  if (auto fair = check_append(last_, entries, append.blobs); !fair.ok())
    return append.done({Stored::kNo, refuse(std::move(fair).error()).message});
  if (before_append)
    before_append(entries);
  if (draw_late && draw_late())
    under_way_ = append;
  else
    end(append);
}

void SimLog::poll() {
  if (auto append = std::exchange(under_way_, std::nullopt))
    end(*append);
}

void SimLog::abandon(bool stored) {
  if (const auto append = std::exchange(under_way_, std::nullopt); append && stored && append->term == leader_)
    store_all(*append);
}

void SimLog::end(const Under& append) {
  if (const auto leads = check_leader(append.term); !leads.ok())
    return append.done({Stored::kDeposed, leads.error().message});
  const Stored stored = commit([&] { store_all(append); },
                               [&] {
                                 const std::size_t count = append.entries.size();
                                 if (count < 2 || !draw_left)
                                   return;
                                 Under some = append;  // blobs come before the entries that name them
                                 some.entries = some.entries.first(draw_left(count));
                                 store_all(some);
                               });
  append.done({stored, stored == Stored::kYes ? "" : kDiskFailed});
}

void SimLog::store_all(const Under& append) {
  for (const Blob& blob : append.blobs) blobs_[blob.id] = archived_blobs_[blob.id] = blob.bytes;
  for (const LogEntry& entry : append.entries) store(entry);
}

void SimLog::store(const LogEntry& entry) {
  entries_[entry.index] = entry;
  archive_[entry.index] = entry;
  last_ = entry.index;
  if (entry.closing)
    durable_seq_ = entry.last_seq;
}

Error SimLog::refuse(Error why) {
  if (on_refused)
    on_refused(why);
  return why;
}

Result<std::vector<LogEntry>> SimLog::read(std::uint64_t from, std::size_t count) {
  std::vector<LogEntry> out;
  std::size_t bytes = 0;
  for (auto it = entries_.lower_bound(from); it != entries_.end() && out.size() < count && bytes < kReadBytesAtOnce;
       ++it) {
    bytes += it->second.bytes.size();
    out.push_back(it->second);
  }
  return out;
}

Result<std::uint64_t> SimLog::last_index() { return last_; }

Result<void> SimLog::write_snapshot(Term term, const SnapshotPart& part) {
  const std::size_t begun = begun_.index == part.index ? begun_.chunks.size() : 0;
  if (auto fair = check_snapshot(last_, part, begun); !fair.ok())
    return refuse(std::move(fair).error());
  return commit(term, [&] {
    if (part.first == 0)
      begun_ = {part.index, {}};
    begun_.chunks.insert(begun_.chunks.end(), part.chunks.begin(), part.chunks.end());
    if (part.last)
      snapshot_ = std::exchange(begun_, {});
  });
}

Result<Log::Snapshot> SimLog::read_snapshot() { return snapshot_; }

Result<void> SimLog::trim(Term term, std::uint64_t upto) {
  if (upto > snapshot_.index)
    return Error{Errc::kInvalid, format("trimming to {} beyond the snapshot at {}", upto, snapshot_.index), {}};
  return commit(term, [&] { entries_.erase(entries_.begin(), entries_.upper_bound(upto)); });
}

Result<std::string> SimLog::blob(const BlobId& id) {
  const auto it = blobs_.find(id);
  if (it == blobs_.end())
    return not_found(format("no blob {}", id));
  return it->second;
}

Result<std::string> SimLog::archived_blob(const BlobId& id) const {
  const auto it = archived_blobs_.find(id);
  return it == archived_blobs_.end() ? Result<std::string>(not_found(format("no blob {}", id))) : it->second;
}

Result<bool> SimLog::has_blob(const BlobId& id) { return blobs_.contains(id); }

Result<BlobId> SimLog::sweep_blobs(Term term, const BlobId& from, const std::function<bool(const BlobId&)>& keep) {
  TRY(check_leader(term));
  SweepPiece piece;
  auto at = blobs_.lower_bound(from);
  while (at != blobs_.end() && !piece.full()) {
    piece.look();
    if (keep(at->first)) {
      ++at;
      continue;
    }
    piece.drop(at->second.size());
    at = blobs_.erase(at);
  }
  return at == blobs_.end() ? BlobId() : at->first;
}

}  // namespace lockstep::sim
