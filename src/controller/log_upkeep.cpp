#include "controller/log_upkeep.h"

#include <algorithm>

#include "base/mutant.h"
#include "controller/entry_pieces.h"
#include "model/job.h"

namespace lockstep {

namespace {

constexpr std::size_t kSnapshotDocumentBytes = 128 << 10;  // short enough for caches while it is read
constexpr std::size_t kKnownBlobsMax = 20'000;             // ids remembered as stored already
constexpr std::uint64_t kTrimStep = 512;      // entries that must be gained before the log is trimmed between snapshots
constexpr std::size_t kTrimBytes = 16 << 20;  // of entries that go at once: the next turn takes the next ones
constexpr std::size_t kUnknownBytes = 16 << 10;  // of an entry that another life wrote
constexpr std::size_t kEntryCost = 4 << 10;      // what a small entry's row counts for
constexpr std::size_t kMarkAtOnce = 4096;        // jobs and steps that a sweep looks at in one turn

// Where the long values of a job lie that records of it share.
void add_places(const Job& job, std::unordered_set<const void*>& out) {
  const JobSpec& spec = *job.spec;
  out.insert({&spec.groups.get(), &spec.options.get(), &spec.labels.get(), &spec.comment.get(),
              &spec.dependencies.get(), &spec.partitions.get()});
  if (job.first_step)
    out.insert(job.first_step.get());
  if (job.allocation)
    out.insert(job.allocation.get());
}

}  // namespace

void SnapshotDraft::encode() {
  write_pieces(at, records, {}, kSnapshotDocumentBytes, *apart,
               [this](std::string bytes, Seq) { chunks.push_back(std::move(bytes)); });
  records = {};
}

void LogUpkeep::loaded(std::uint64_t snapshot_index, std::uint64_t trimmed,
                       std::map<std::uint64_t, std::size_t> entry_bytes) {
  trimmed_ = trimmed;
  loaded_snapshot_ = snapshot_index_ = snapshot_index;
  entry_bytes_ = std::move(entry_bytes);
  tail_bytes_ = 0;
  for (const auto& [index, bytes] : entry_bytes_) tail_bytes_ += bytes;
  known_blobs_.clear();
  if (storing_ || sweep_)
    busy_ = false;
  storing_ = nullptr;
  sweep_.reset();
  has_more_ = false;
}

void LogUpkeep::appended(std::span<const LogEntry> entries, std::vector<Blob> blobs) {
  for (const LogEntry& entry : entries) {
    tail_bytes_ += entry.bytes.size();
    entry_bytes_.emplace_hint(entry_bytes_.end(), entry.index, entry.bytes.size());
  }
  if (known_blobs_.size() > kKnownBlobsMax && !sweep_)
    known_blobs_.clear();
  for (Blob& blob : blobs) {
    tail_bytes_ += blob.bytes.size();
    known_blobs_.insert(std::move(blob.id));
  }
}

bool LogUpkeep::snapshot_due(std::uint64_t last_index) const {
  return !busy_ && (last_index >= snapshot_index_ + due_.entries || tail_bytes_ >= due_.bytes);
}

std::shared_ptr<SnapshotDraft> LogUpkeep::draft(std::uint64_t index, Instant at, std::vector<Change> records) {
  auto draft = std::make_shared<SnapshotDraft>();
  draft->index = index;
  draft->at = at;
  draft->records = std::move(records);
  draft->apart = apart_.frozen();
  busy_ = true;
  tail_bytes_ = 0;
  return draft;
}

void LogUpkeep::store(std::shared_ptr<SnapshotDraft> draft) {
  busy_ = true;
  storing_ = std::move(draft);
  stored_chunks_ = 0;
  has_more_ = true;
}

void LogUpkeep::turn(Term term, const Tables& tables) {
  Piece left = store_piece(term);
  if (left == Piece::kThrough)
    left = trim_piece(term);
  if (left == Piece::kThrough)
    left = sweep_piece(term, tables);
  has_more_ = left == Piece::kMore;
}

void LogUpkeep::raise_floor(std::uint64_t index) { floor_ = std::max(floor_, index); }

LogUpkeep::Piece LogUpkeep::store_piece(Term term) {
  if (!storing_)
    return Piece::kThrough;
  const auto& chunks = storing_->chunks;
  const std::size_t count = part_length(chunks, stored_chunks_);
  const bool last = stored_chunks_ + count == chunks.size();
  // A snapshot that cannot be written costs only a longer tail.
  if (!log_.write_snapshot(term, {.index = storing_->index,
                                  .first = stored_chunks_,
                                  .chunks = std::span(chunks).subspan(stored_chunks_, count),
                                  .last = last})
           .ok()) {
    storing_ = nullptr;
    busy_ = false;
    return Piece::kFailed;
  }
  stored_chunks_ += count;
  if (!last)
    return Piece::kMore;
  snapshot_index_ = storing_->index;
  apart_.settle_snapshot(*storing_->apart, storing_->index);
  storing_ = nullptr;
  sweep_.emplace();
  return Piece::kThrough;
}

LogUpkeep::Piece LogUpkeep::trim_piece(Term term) {
  std::uint64_t target = std::min(snapshot_index_, floor_);
  if (mutant(Mutant::kTrimBehindReader))
    target = snapshot_index_;
  if (target < trimmed_ + kTrimStep && (target <= trimmed_ || target != snapshot_index_))
    return Piece::kThrough;
  const std::uint64_t upto = one_trim_up_to(target);
  if (!log_.trim(term, upto).ok())
    return Piece::kFailed;
  trimmed_ = upto;
  entry_bytes_.erase(entry_bytes_.begin(), entry_bytes_.upper_bound(upto));
  return upto < target ? Piece::kMore : Piece::kThrough;
}

// As far as one transaction goes.
std::uint64_t LogUpkeep::one_trim_up_to(std::uint64_t target) const {
  std::size_t bytes = 0;
  for (std::uint64_t index = trimmed_ + 1; index < target; ++index) {
    const auto known = entry_bytes_.find(index);
    bytes += known == entry_bytes_.end() ? kUnknownBytes : std::max(known->second, kEntryCost);
    if (bytes >= kTrimBytes)
      return index;
  }
  return target;
}

LogUpkeep::Piece LogUpkeep::sweep_piece(Term term, const Tables& tables) {
  if (!sweep_)
    return Piece::kThrough;
  if (!sweep_->begun) {
    // Entries before the snapshot that was loaded may name long values that nothing here knows of. History reads
    // them.
    if (floor_ < loaded_snapshot_)
      return end_sweep(Piece::kThrough);
    sweep_->begun = true;
    known_blobs_.clear();
  }
  if (!sweep_->marked) {
    if (!mark_some(tables))
      return Piece::kMore;
    sweep_->marked = true;
    apart_.sweep(sweep_->held, mutant(Mutant::kLongValueForgotten) ? UINT64_MAX : trimmed_);
    sweep_->held = {};
  }
  auto next = blobs_.sweep_blobs(term, sweep_->next_blob, [&](const BlobId& id) {
    return sweep_->used.contains(id) || known_blobs_.contains(id) || apart_.has(id);
  });
  if (!next.ok())
    return end_sweep(Piece::kFailed);
  if (next->empty())
    return end_sweep(Piece::kThrough);
  sweep_->next_blob = std::move(*next);
  return Piece::kMore;
}

LogUpkeep::Piece LogUpkeep::end_sweep(Piece how) {
  sweep_.reset();
  busy_ = false;
  return how;
}

// True when every record has been looked at.
bool LogUpkeep::mark_some(const Tables& tables) {
  std::size_t left = kMarkAtOnce;
  return mark_jobs(tables, left) && mark_steps(tables, left);
}

bool LogUpkeep::mark_jobs(const Tables& tables, std::size_t& left) {
  for (auto at = tables.jobs.lower_bound(sweep_->next_job); at != tables.jobs.end(); ++at) {
    if (left-- == 0)
      return false;
    const auto& [id, job] = *at;
    sweep_->next_job = JobId(id.value + 1);
    if (!job->spec)
      continue;
    sweep_->used.insert(job->spec->script);
    sweep_->used.insert(job->spec->environment);
    if (job->first_step)
      sweep_->used.insert(job->first_step->environment);
    if (!apart_.empty())
      add_places(*job, sweep_->held);
  }
  return true;
}

bool LogUpkeep::mark_steps(const Tables& tables, std::size_t& left) {
  for (auto at = tables.steps.lower_bound(sweep_->next_step); at != tables.steps.end(); ++at) {
    sweep_->next_step = at->first;
    if (left-- == 0)
      return false;
    if (const auto& step = at->second; step->spec) {
      sweep_->used.insert(step->spec->environment);
      sweep_->held.insert({step->spec.get(), &step->places.get()});
    }
  }
  return true;
}

}  // namespace lockstep
