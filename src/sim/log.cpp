#include "sim/log.h"

#include "base/text.h"

namespace lockstep::sim {

namespace {

Error disk_error() { return {Errc::kIo, "the simulated disk failed", {}}; }

}  // namespace

template <class Write, class WriteSome>
Result<void> SimLog::commit(Write write, WriteSome write_some) {
  switch (draw_fault ? draw_fault() : CommitFault::kNone) {
    case CommitFault::kNone: write(); return {};
    case CommitFault::kFails: return disk_error();
    case CommitFault::kFailsYetWritten: write(); return disk_error();
    case CommitFault::kCrashBeforeWrite: throw Crash{};
    case CommitFault::kCrashBeforeSync: write_some(); throw Crash{};
    case CommitFault::kCrashBeforeSyncKept:
    case CommitFault::kCrashAfterSync: write(); throw Crash{};
  }
  return {};
}

Result<void> SimLog::append(const std::vector<LogEntry>& entries, const std::vector<Blob>& blobs) {
  if (auto fair = check_append(last_, entries, blobs); !fair.ok())
    return refuse(std::move(fair).error());
  if (before_append)
    before_append(entries);
  const auto store_blobs = [&] {
    for (const Blob& blob : blobs) blobs_[blob.id] = archived_blobs_[blob.id] = blob.bytes;
  };
  return commit(
      [&] {
        store_blobs();
        for (const LogEntry& entry : entries) store(entry);
      },
      [&] {
        if (entries.size() < 2 || !draw_left)
          return;
        store_blobs();  // they come before the entries that name them
        for (std::size_t left = draw_left(entries.size()), i = 0; i < left; ++i) store(entries[i]);
      });
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

Result<void> SimLog::write_snapshot(const SnapshotPart& part) {
  const std::size_t begun = begun_.index == part.index ? begun_.chunks.size() : 0;
  if (auto fair = check_snapshot(last_, part, begun); !fair.ok())
    return refuse(std::move(fair).error());
  return commit(
      [&] {
        if (part.first == 0)
          begun_ = {part.index, {}};
        begun_.chunks.insert(begun_.chunks.end(), part.chunks.begin(), part.chunks.end());
        if (part.last)
          snapshot_ = std::exchange(begun_, {});
      },
      [] {});
}

Result<Log::Snapshot> SimLog::read_snapshot() { return snapshot_; }

Result<void> SimLog::trim(std::uint64_t upto) {
  if (upto > snapshot_.index)
    return Error{Errc::kInvalid, format("trimming to {} beyond the snapshot at {}", upto, snapshot_.index), {}};
  return commit([&] { entries_.erase(entries_.begin(), entries_.upper_bound(upto)); }, [] {});
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

Result<BlobId> SimLog::sweep_blobs(const BlobId& from, const std::function<bool(const BlobId&)>& keep) {
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
