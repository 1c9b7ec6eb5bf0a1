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

class TestLog : public Log, public BlobStore {
 public:
  enum class Append : unsigned char {
    kWorks,
    kFails,         // nothing is stored, an error is returned
    kStoresAndErrs  // everything is stored, and nobody knows it
  };
  Append next = Append::kWorks;
  bool late = false;  // appends end in poll() only
  bool reads_fail = false;
  int appends = 0;
  std::string refused;  // the last thing asked of it that no log takes
  std::vector<LogEntry> entries;
  Snapshot snapshot, begun;  // begun: what is written of the next one
  int parts = 0, trims = 0, sweeps = 0;
  bool snapshots_fail = false, sweeps_fail = false;
  std::map<BlobId, std::string> blobs;
  std::uint64_t trimmed = 0;
  Term leader = 0;
  std::function<void()> under_way;

  Result<Term> lead() override { return ++leader; }
  void append(Term term, std::span<const LogEntry> batch, Done done) override {
    ++appends;
    under_way = [this, term, batch, put = std::exchange(put_, {}), done = std::move(done)] {
      done(store(term, batch, put));
    };
    if (!late)
      poll();
  }
  void poll() override {
    if (const auto end = std::exchange(under_way, nullptr))
      end();
  }
  void put(std::span<const Blob> new_blobs) override { put_ = new_blobs; }
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
  Result<void> write_snapshot(Term term, const SnapshotPart& part) override {
    TRY(check_term(leader, term));
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
  Result<void> trim(Term term, std::uint64_t upto) override {
    TRY(check_term(leader, term));
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
  Result<BlobId> sweep_blobs(Term term, const BlobId& from, const std::function<bool(const BlobId&)>& keep) override {
    TRY(check_term(leader, term));
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
  End store(Term term, std::span<const LogEntry> batch, std::span<const Blob> new_blobs) {
    if (next == Append::kFails)
      return {Stored::kNo, "no space left"};
    if (const auto leads = check_term(leader, term); !leads.ok())
      return {Stored::kDeposed, leads.error().message};
    if (const auto fair = check_append(last(), batch, new_blobs); !fair.ok()) {
      refused = fair.error().message;
      return {Stored::kNo, refused};
    }
    entries.insert(entries.end(), batch.begin(), batch.end());
    for (const auto& blob : new_blobs) blobs[blob.id] = blob.bytes;
    if (next == Append::kStoresAndErrs)
      return {Stored::kUnknown, "the connection broke"};
    return {};
  }

  std::span<const Blob> put_;
  std::uint64_t last() const { return entries.empty() ? snapshot.index : entries.back().index; }
};

}  // namespace lockstep
