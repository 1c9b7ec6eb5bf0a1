// For tests: a log in memory, as strict as the real one, that can refuse appends, lie about them, and forget what was
// not acknowledged.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ports/log.h"

namespace lockstep {

inline constexpr Instant kStart{1'700'000'000'000'000};

class TestLog : public Log {
 public:
  enum class Append : unsigned char {
    kWorks,
    kFails,         // nothing is stored, an error is returned
    kStoresAndErrs  // everything is stored, an error is returned all the same
  };
  Append next = Append::kWorks;
  bool reads_fail = false;
  int appends = 0;
  std::string refused;  // the last thing asked of it that no log takes
  std::vector<LogEntry> entries;
  Snapshot snapshot, begun;  // begun: what is written of the next one
  int parts = 0, trims = 0, sweeps = 0;
  bool snapshots_fail = false, sweeps_fail = false;
  std::map<BlobId, std::string> blobs;
  std::uint64_t trimmed = 0;

  Result<void> append(const std::vector<LogEntry>& batch, const std::vector<Blob>& new_blobs) override {
    ++appends;
    if (next == Append::kFails)
      return Error{Errc::kIo, "no space left", {}};
    if (auto fair = check_append(last(), batch, new_blobs); !fair.ok()) {
      refused = fair.error().message;
      return fair;
    }
    entries.insert(entries.end(), batch.begin(), batch.end());
    for (const auto& blob : new_blobs) blobs[blob.id] = blob.bytes;
    if (next == Append::kStoresAndErrs)
      return Error{Errc::kIo, "the connection broke", {}};
    return {};
  }
  Result<std::vector<LogEntry>> read(std::uint64_t from, std::size_t count) override {
    if (reads_fail)
      return Error{Errc::kIo, "cannot read", {}};
    std::vector<LogEntry> out;
    for (const auto& entry : entries)
      if (entry.index >= from && out.size() < count)
        out.push_back(entry);
    return out;
  }
  Result<std::uint64_t> last_index() override { return last(); }
  Result<void> write_snapshot(const SnapshotPart& part) override {
    ++parts;
    if (snapshots_fail)
      return Error{Errc::kIo, "no space left", {}};
    if (auto fair = check_snapshot(last(), part, begun.index == part.index ? begun.chunks.size() : 0); !fair.ok()) {
      refused = fair.error().message;
      return fair;
    }
    if (part.first == 0)
      begun = {part.index, {}};
    begun.chunks.insert(begun.chunks.end(), part.chunks.begin(), part.chunks.end());
    if (part.last)
      snapshot = std::exchange(begun, {});
    return {};
  }
  Result<Snapshot> read_snapshot() override {
    if (reads_fail)
      return Error{Errc::kIo, "cannot read", {}};
    return snapshot;
  }
  Result<void> trim(std::uint64_t upto) override {
    CHECK(upto <= snapshot.index, "never beyond the snapshot");
    ++trims;
    trimmed = std::max(trimmed, upto);
    std::erase_if(entries, [&](const LogEntry& entry) { return entry.index <= upto; });
    return {};
  }
  Result<std::string> blob(const BlobId& id) override {
    const auto it = blobs.find(id);
    if (it == blobs.end())
      return not_found("no such blob");
    return it->second;
  }
  Result<bool> has_blob(const BlobId& id) override { return blobs.contains(id); }
  Result<BlobId> sweep_blobs(const BlobId& from, const std::function<bool(const BlobId&)>& keep) override {
    ++sweeps;
    if (sweeps_fail)
      return Error{Errc::kIo, "no space left", {}};
    SweepPiece piece;
    auto at = blobs.lower_bound(from);
    while (at != blobs.end() && !piece.full()) {
      piece.look();
      if (keep(at->first)) {
        ++at;
        continue;
      }
      piece.drop(at->second.size());
      at = blobs.erase(at);
    }
    return at == blobs.end() ? BlobId() : at->first;
  }

 private:
  std::uint64_t last() const { return entries.empty() ? snapshot.index : entries.back().index; }
};

}  // namespace lockstep
