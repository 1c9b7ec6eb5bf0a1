#include "io/sqlite_log.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/text.h"
#include "io/compress.h"
#include "io/directory_lock.h"
#include "io/disk_reserve.h"
#include "io/log_tip.h"
#include "io/sha256.h"
#include "io/sqlite.h"

namespace lockstep {

namespace {

constexpr std::int64_t kLookThroughPages = 4096;  // 16 MiB
constexpr std::int64_t kLogId = 0x4c534c47;       // "LSLG"
constexpr std::int64_t kLogFormat = 2;            // 2: a snapshot may begin at another chunk than 0
constexpr std::size_t kReadAtOnce = 256;          // entries
constexpr const char* kFirstBlob = "0";           // no id is before it
constexpr std::size_t kBlobMax = std::size_t{1} << 30;
constexpr std::int64_t kRestorePeriodS = 1;

// In the order of sqlite_master; compared word for word at every start.
constexpr const char* kTables[] = {
    "CREATE TABLE blobs(id TEXT PRIMARY KEY, bytes BLOB NOT NULL)",
    "CREATE TABLE chunks(number INTEGER PRIMARY KEY, mark INTEGER NOT NULL, bytes BLOB NOT NULL)",
    "CREATE TABLE entries(number INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL, closing INTEGER NOT NULL, "
    "mark INTEGER NOT NULL, bytes BLOB NOT NULL)",
    "CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
};

Error corrupt(std::string message) {
  return {
      Errc::kCorrupt, message + ". It was left as it is: restore it from a backup, or use another state directory", {}};
}

// A mark over a stored row: SQLite itself would not notice a flipped bit inside a value.
std::int64_t mark_of(std::uint64_t number, std::uint64_t last_seq, bool closing, std::string_view bytes) {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
  std::uint64_t h = (number * kPrime) ^ last_seq ^ (closing ? kPrime : 0) ^ (bytes.size() << 32);
  const auto mix = [&h](std::uint64_t word) {
    h = (h ^ word) * kPrime;
    h ^= h >> 32;
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  std::uint64_t last = 0;
  if (at < bytes.size())
    std::memcpy(&last, bytes.data() + at, bytes.size() - at);
  mix(last);
  return static_cast<std::int64_t>(h);
}

// Another file of the same log: "lockstep.tip" beside "lockstep.db".
std::string beside(const std::string& path, std::string_view ending) {
  const std::size_t dot = path.rfind('.'), slash = path.rfind('/');
  const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return path.substr(0, has_ending ? dot : path.size()).append(ending);
}

std::int64_t monotonic_s() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec;
}

// SQLite takes an empty file for a new database and would also write to some that merely look strange, so the first
// look is ours, at the bytes.
Result<void> look_at_header(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    if (errno == ENOENT)
      return {};
    return Error{Errc::kIo, format("cannot read {}: {}", path, std::strerror(errno)), {}};
  }
  struct stat found {};
  char header[100] = {};
  const bool is_file = ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
  const ssize_t n = is_file ? ::pread(fd, header, sizeof header, 0) : 0;
  ::close(fd);
  if (!is_file)
    return corrupt(format("{} is not a file", path));
  if (found.st_size == 0)
    return {};
  static constexpr std::string_view kMagic("SQLite format 3\0", 16);
  if (n < static_cast<ssize_t>(sizeof header) || std::string_view(header, 16) != kMagic)
    return corrupt(format("{} is not a Lockstep state file", path));
  return {};
}

class Store final : public SqliteLog {
 public:
  Store(std::unique_ptr<DirectoryLock> lock, DiskReserve reserve, SqliteLogOptions options, Sqlite db)
      : lock_(std::move(lock)),
        reserve_(std::move(reserve)),
        options_(std::move(options)),
        db_(std::move(db)),
        tip_(beside(db_.path(), ".tip")) {}

  // Identity, schema and continuity; makes the tables of a new file.
  Result<void> prepare() {
    TRY(leave_wal_on_close(true));
    const auto readable = db_.number("SELECT count(*) FROM sqlite_master");
    if (!readable.ok())
      return readable.error().code == Errc::kCorrupt || readable.error().code == Errc::kIo
                 ? corrupt(format("{} is damaged ({})", db_.path(), readable.error().message))
                 : readable.error();
    const std::int64_t id = TRY(db_.number("PRAGMA application_id"));
    const std::int64_t format_number = TRY(db_.number("PRAGMA user_version"));
    const bool is_new = *readable == 0 && id == 0 && format_number == 0;
    if (!is_new && id != kLogId)
      return corrupt(format("{} is a database of another program", db_.path()));
    if (format_number > kLogFormat)
      return Error{Errc::kUnsupported,
                   format("{} was written by a newer version (format {}, this one reads {}): upgrade", db_.path(),
                          format_number, kLogFormat),
                   {}};
    TRY(db_.run("PRAGMA journal_mode=WAL"));
    TRY(db_.run("PRAGMA synchronous=FULL"));
    TRY(db_.run("PRAGMA wal_autocheckpoint=0"));
    TRY(db_.run("PRAGMA cache_size=-2048"));
    // Debian's SQLite overwrites what is deleted: a gigabyte of old entries would be written once more as it goes.
    TRY(db_.run("PRAGMA secure_delete=FALSE"));
    if (is_new)
      TRY(create());
    TRY(check_schema());
    if (!is_new)
      TRY(check_pages());
    TRY(prepare_statements());
    const std::uint64_t lost = TRY(check_tip());
    TRY(load_last());
    if (lost > 0)
      TRY(stand_in_for_lost(lost));
    if (!is_whole_ && *last_ > 0)
      TRY(read_whole());
    TRY(leave_wal_on_close(false));
    sqlite3_wal_hook(
        db_.native(),
        [](void* self, sqlite3*, const char*, int pages) {
          static_cast<Store*>(self)->wal_pages_ = pages;
          return SQLITE_OK;
        },
        this);
    if (options_.reserve_bytes > 0)
      low_space_ = !reserve_.restore();
    return {};
  }

  Result<Term> lead() override {
    auto term = try_lead();
    if (!term.ok() && term.error().code == Errc::kExhausted) {
      disk_full();
      term = try_lead();
    }
    last_.reset();  // others may have written before
    return term;
  }

  void append(Term term, std::span<const LogEntry> entries, Done done) override {
    End end;
    const auto stored = try_append(term, entries, std::exchange(put_, {}), end);
    if (stored.ok())
      stored_all(entries);
    else
      give_up_append(stored.error(), end);
    done(end);
  }

  void put(std::span<const Blob> blobs) override { put_ = blobs; }

  Result<std::vector<LogEntry>> read(std::uint64_t from, std::size_t count) override {
    std::vector<LogEntry> out;
    std::size_t bytes = 0;
    auto& select = select_entries_;
    select.bind(1, static_cast<std::int64_t>(from))
        .bind(2, static_cast<std::int64_t>(std::min<std::size_t>(count, 1 << 30)));
    while (bytes < kReadBytesAtOnce && TRY(select.step())) {
      LogEntry entry;
      entry.index = static_cast<std::uint64_t>(select.number(0));
      entry.last_seq = static_cast<Seq>(select.number(1));
      entry.closing = select.number(2) != 0;
      entry.bytes = select.blob(4);
      if (mark_of(entry.index, entry.last_seq, entry.closing, entry.bytes) != select.number(3)) {
        select.reset();
        return corrupt(format("{}: entry {} is damaged", db_.path(), entry.index));
      }
      bytes += entry.bytes.size();
      out.push_back(std::move(entry));
    }
    select.reset();
    return out;
  }

  Result<std::uint64_t> last_index() override {
    if (!last_)
      TRY(load_last());
    return *last_;
  }

  Result<void> write_snapshot(Term term, const SnapshotPart& part) override {
    TRY(check_snapshot(TRY(last_index()), part, begun_.index == part.index ? begun_.chunks : 0));
    auto done = try_snapshot(term, part);
    if (!done.ok()) {
      begun_ = {};  // whether it was stored is not known
      if (done.error().code == Errc::kExhausted)
        disk_full();
    }
    if (done.ok() && wal_pages_ >= options_.checkpoint_pages)
      checkpoint();
    return done;
  }

  Result<Snapshot> read_snapshot() override {
    Snapshot snapshot;
    snapshot.index = TRY(fact("snapshot"));
    if (snapshot.index == 0)
      return snapshot;
    const std::uint64_t expected = TRY(fact("snapshot_chunks")), begin = TRY(fact("snapshot_begin"));
    auto select = TRY(SqliteStatement::prepare(
        db_, "SELECT number, mark, bytes FROM chunks WHERE number >= ?1 AND number < ?2 ORDER BY number"));
    select.bind(1, static_cast<std::int64_t>(begin)).bind(2, static_cast<std::int64_t>(begin + expected));
    while (TRY(select.step())) {
      const auto number = static_cast<std::uint64_t>(select.number(0)) - begin;
      if (number != snapshot.chunks.size() || mark_of(number, snapshot.index, true, select.blob(2)) != select.number(1))
        return corrupt(format("{}: chunk {} of the snapshot is damaged", db_.path(), number));
      auto bytes = decompress(select.blob(2), kBlobMax);
      if (!bytes.ok())
        return corrupt(format("{}: chunk {} of the snapshot: {}", db_.path(), number, bytes.error().message));
      snapshot.chunks.push_back(std::move(*bytes));
    }
    if (snapshot.chunks.size() != expected)
      return corrupt(format("{}: the snapshot has {} of {} chunks", db_.path(), snapshot.chunks.size(), expected));
    return snapshot;
  }

  Result<void> trim(Term term, std::uint64_t upto) override {
    const std::uint64_t target = std::min(upto, TRY(fact("snapshot")));
    const std::uint64_t before = TRY(fact("trimmed"));
    if (target <= before)
      return {};
    auto transaction = TRY(begin_as(term));
    auto erase = TRY(SqliteStatement::prepare(db_, "DELETE FROM entries WHERE number <= ?1"));
    TRY(erase.bind(1, static_cast<std::int64_t>(target)).execute());
    TRY(set_fact("trimmed", target));
    TRY(transaction.commit());
    if (wal_pages_ >= options_.checkpoint_pages)
      checkpoint();
    return {};
  }

  Result<std::string> blob(const BlobId& id) override {
    select_blob_.bind_text(1, id);
    if (!TRY(select_blob_.step()))
      return not_found(format("blob {} is not stored", id));
    auto bytes = decompress(select_blob_.blob(0), kBlobMax);
    select_blob_.reset();
    if (!bytes.ok() || sha256_hex(*bytes) != id)
      return corrupt(format("{}: blob {} is damaged", db_.path(), id));
    return bytes;
  }

  Result<bool> has_blob(const BlobId& id) override {
    select_blob_.bind_text(1, id);
    const bool found = TRY(select_blob_.step());
    select_blob_.reset();
    return found;
  }

  // What is left of former snapshots first, then blobs: together not more than a piece.
  Result<BlobId> sweep_blobs(Term term, const BlobId& from, const std::function<bool(const BlobId&)>& keep) override {
    SweepPiece piece;
    TRY(sweep_chunks(term, piece));
    std::vector<std::string> gone;
    BlobId next = from.empty() ? kFirstBlob : from;  // never "", which would say that it is through
    if (!piece.full())
      next = TRY(find_unused(from, keep, piece, gone));
    if (!gone.empty()) {
      auto transaction = TRY(begin_as(term));
      auto erase = TRY(SqliteStatement::prepare(db_, "DELETE FROM blobs WHERE id = ?1"));
      for (const auto& id : gone) TRY(erase.bind_text(1, id).execute());
      TRY(transaction.commit());
    }
    if (wal_pages_ >= options_.checkpoint_pages)
      checkpoint();
    return next;
  }

  const std::vector<std::string>& notices() const override { return notices_; }
  bool is_known_whole() const override { return is_whole_; }
  std::uint64_t jobs_given() const override { return jobs_given_; }

  Result<void> seen_elsewhere(std::uint64_t index, const std::string& by) override {
    const std::uint64_t last = TRY(last_index());
    if (index <= last)
      return {};
    TRY(ask_to_accept(format("{} ends at entry {}, but {} has seen entries up to {}: {} are lost", db_.path(), last, by,
                             index, index - last)));
    return stand_in_for_lost(index);
  }

  Result<void> put_back(std::uint64_t index, const std::string& by) override {
    const std::uint64_t last = TRY(last_index());
    notices_.push_back(
        format("{} and its tip are older than {}: they end at entry {}, that has seen entries up to {}. They are taken "
               "as put back from a backup. What happened in between is lost but for accounting: jobs that were "
               "submitted then are gone and end there as LostFromLog, their ids are not given out again",
               db_.path(), by, last, index));
    return stand_in_for_lost(index);
  }

  bool low_space() override {
    if (!low_space_)
      return false;
    const std::int64_t now = monotonic_s();
    if (now >= next_restore_s_) {
      next_restore_s_ = now + kRestorePeriodS;
      low_space_ = !reserve_.restore();
    }
    return low_space_;
  }

 private:
  Result<void> create() {
    auto transaction = TRY(SqliteTransaction::begin(db_));
    for (const char* table : kTables) TRY(db_.run(table));
    TRY(db_.run(format("PRAGMA application_id={}", kLogId).c_str()));
    TRY(db_.run(format("PRAGMA user_version={}", kLogFormat).c_str()));
    return transaction.commit();
  }

  Result<void> check_schema() {
    auto select =
        TRY(SqliteStatement::prepare(db_, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"));
    std::size_t n = 0;
    while (TRY(select.step())) {
      if (n >= std::size(kTables) || select.text(0) != kTables[n])
        return corrupt(format("{} has tables that are not ours", db_.path()));
      ++n;
    }
    if (n != std::size(kTables))
      return corrupt(format("{} lacks tables", db_.path()));
    return {};
  }

  // Every entry, chunk and blob carries a checksum that is verified when it is read. A file small enough for it to take
  // milliseconds is besides looked through whole, so that damage to a page nobody reads yet is found now.
  Result<void> check_pages() {
    const std::int64_t pages = TRY(db_.number("PRAGMA page_count"));
    return pages > kLookThroughPages ? Result<void>() : look_through();
  }

  Result<void> look_through() {
    auto check = TRY(SqliteStatement::prepare(db_, "PRAGMA quick_check(1)"));
    const auto row = check.step();
    if (!row.ok() || !*row || check.text(0) != "ok")
      return corrupt(format("{} is damaged ({})", db_.path(),
                            row.ok() && *row ? one_line(std::string(check.text(0))) : "it cannot be read"));
    return {};
  }

  Result<void> prepare_statements() {
    insert_entry_ = TRY(SqliteStatement::prepare(
        db_, "INSERT INTO entries(number, last_seq, closing, mark, bytes) VALUES(?1, ?2, ?3, ?4, ?5)"));
    insert_blob_ = TRY(SqliteStatement::prepare(db_, "INSERT OR IGNORE INTO blobs(id, bytes) VALUES(?1, ?2)"));
    select_blob_ = TRY(SqliteStatement::prepare(db_, "SELECT bytes FROM blobs WHERE id = ?1"));
    select_term_ = TRY(SqliteStatement::prepare(db_, "SELECT value FROM facts WHERE name = 'term'"));
    select_entries_ = TRY(SqliteStatement::prepare(
        db_, "SELECT number, last_seq, closing, mark, bytes FROM entries WHERE number >= ?1 ORDER BY number LIMIT ?2"));
    return {};
  }

  // A log that is refused must stay as it is: closing it would copy what is left of a damaged write-ahead log back and
  // delete the rest.
  Result<void> leave_wal_on_close(bool leave) {
    const int code = sqlite3_db_config(db_.native(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave ? 1 : 0, nullptr);
    if (code != SQLITE_OK)
      return db_.error(code, "cannot configure");
    return {};
  }

  // The log must still have what was acknowledged last. Returns up to which entry it was lost if the administrator has
  // said that the cluster goes on all the same; 0 = nothing is lost.
  Result<std::uint64_t> check_tip() {
    const LogTip::Found found = TRY(tip_.read());
    const std::uint64_t trimmed = TRY(fact("trimmed"));
    const auto closed =
        static_cast<std::uint64_t>(TRY(db_.number("SELECT max(number) FROM entries WHERE closing = 1")));
    const std::uint64_t last = std::max(closed, trimmed);
    is_whole_ = found.state == LogTip::State::kWhole || last == 0;
    if (found.state != LogTip::State::kWhole) {
      if (found.state == LogTip::State::kDamaged || last > 0)
        notices_.push_back(
            format("{} {}: whether the log lost entries after its last one, {}, cannot be told. It was read whole and "
                   "is taken as "
                   "it is. If it is a copy from a backup, what happened after that is not in it",
                   tip_.path(), found.state == LogTip::State::kMissing ? "is missing" : "is damaged", last));
      return std::uint64_t{0};
    }
    const LogTip::Tip& tip = found.tip;
    jobs_given_ = tip.next_job;
    std::string what;
    if (tip.index > last)
      what = format("{} ends at entry {}, but entries up to {} were acknowledged: {} are lost", db_.path(), last,
                    tip.index, tip.index - last);
    else if (tip.index > trimmed && TRY(stored_mark(tip.index)) != tip.mark)
      what = format("{} has another entry {} than the one that was acknowledged", db_.path(), tip.index);
    if (what.empty())
      return std::uint64_t{0};
    TRY(ask_to_accept(what));
    return tip.index;
  }

  // An error, unless the administrator has said that the cluster goes on without what is lost.
  Result<void> ask_to_accept(const std::string& what) {
    const std::string accept = beside(db_.path(), ".accept-loss");
    if (::access(accept.c_str(), F_OK) != 0)
      return Error{
          Errc::kCorrupt,
          format("{}. Its write-ahead log is damaged, or it is an older copy. It was left as it is: restore it "
                 "from a backup, or make a file {} to go on without what is lost",
                 what, accept),
          {}};
    ::unlink(accept.c_str());
    notices_.push_back(what +
                       ", which was accepted. Jobs that were submitted in them are gone; their ids are not given out "
                       "again");
    return {};
  }

  // Everything that could be damaged, when no tip says how far it must go.
  Result<void> read_whole() {
    TRY(look_through());
    for (std::uint64_t next = TRY(fact("trimmed")) + 1; next <= *last_;) {
      const auto entries = TRY(read(next, kReadAtOnce));
      if (entries.empty())
        return corrupt(format("{}: entry {} is missing", db_.path(), next));
      next = entries.back().index + 1;
    }
    (void)TRY(read_snapshot());
    return {};
  }

  // Entries without a byte take the places of those that were lost, so that no number is given out twice: accounting
  // may have seen them.
  Result<void> stand_in_for_lost(std::uint64_t upto) {
    const std::uint64_t from = *last_ + 1;
    const auto last_seq = static_cast<Seq>(TRY(db_.number("SELECT max(last_seq) FROM entries")));
    auto transaction = TRY(SqliteTransaction::begin(db_));
    for (std::uint64_t index = from; index <= upto; ++index)
      TRY(insert({.index = index, .last_seq = last_seq, .bytes = {}}));
    TRY(transaction.commit());
    last_ = std::max(*last_, upto);
    tip_.write({*last_, TRY(stored_mark(*last_)), jobs_given_});
    is_whole_ = true;
    return {};
  }

  Result<std::int64_t> stored_mark(std::uint64_t index) {
    auto select = TRY(SqliteStatement::prepare(db_, "SELECT mark FROM entries WHERE number = ?1"));
    select.bind(1, static_cast<std::int64_t>(index));
    return TRY(select.step()) ? select.number(0) : std::int64_t{0};
  }

  // Where the log ends; what is there has no gaps. Chunks of an outcome whose closing entry never came do not count.
  Result<void> load_last() {
    const std::uint64_t trimmed = TRY(fact("trimmed"));
    auto select = TRY(SqliteStatement::prepare(db_, "SELECT count(*), min(number), max(number) FROM entries"));
    TRY(select.step());
    const auto count = static_cast<std::uint64_t>(select.number(0));
    const auto first = static_cast<std::uint64_t>(select.number(1));
    auto last = static_cast<std::uint64_t>(select.number(2));
    select.reset();
    if (count == 0)
      last = trimmed;
    else if (first != trimmed + 1 || last - first + 1 != count)
      return corrupt(
          format("{} has gaps: {} entries from {} to {}, trimmed up to {}", db_.path(), count, first, last, trimmed));
    if (TRY(fact("snapshot")) > last)
      return corrupt(format("{} ends at entry {}, before its snapshot", db_.path(), last));
    const auto closed =
        static_cast<std::uint64_t>(TRY(db_.number("SELECT max(number) FROM entries WHERE closing = 1")));
    if (const std::uint64_t end = std::max(closed, trimmed); end < last) {
      auto erase = TRY(SqliteStatement::prepare(db_, "DELETE FROM entries WHERE number > ?1"));
      TRY(erase.bind(1, static_cast<std::int64_t>(end)).execute());
      last = end;
    }
    last_ = last;
    return {};
  }

  Result<Term> try_lead() {
    auto transaction = TRY(SqliteTransaction::begin(db_));
    const Term term = TRY(fact("term")) + 1;
    TRY(set_fact("term", term));
    TRY(transaction.commit());
    return term;
  }

  // A transaction of the leader: nobody else can begin a term before it ends.
  Result<SqliteTransaction> begin_as(Term term) {
    auto transaction = TRY(SqliteTransaction::begin(db_));
    TRY(check_term(TRY(leader()), term));
    return transaction;
  }

  Result<Term> leader() {
    const bool known = TRY(select_term_.step());
    const auto term = known ? static_cast<Term>(select_term_.number(0)) : Term{0};
    select_term_.reset();
    return term;
  }

  // `end` is what an error means.
  Result<void> try_append(Term term, std::span<const LogEntry> entries, std::span<const Blob> blobs, End& end) {
    end.stored = Stored::kNo;
    TRY(check_append(TRY(last_index()), entries, blobs));
    auto transaction = begin_as(term);
    if (!transaction.ok()) {
      if (transaction.error().code == Errc::kConflict)
        end.stored = Stored::kDeposed;
      return transaction.error();
    }
    for (const auto& blob : blobs) {
      const std::string packed = compress(blob.bytes);
      TRY(insert_blob_.bind_text(1, blob.id).bind_blob(2, packed).execute());
    }
    for (const auto& entry : entries) TRY(insert(entry));
    end.stored = Stored::kUnknown;
    TRY(transaction->commit());
    end.stored = Stored::kYes;
    return {};
  }

  void stored_all(std::span<const LogEntry> entries) {
    if (!entries.empty()) {
      last_ = entries.back().index;
      jobs_given_ = std::max(jobs_given_, entries.back().next_job);
      if (entries.back().closing)
        tip_.write({*last_, last_mark_, jobs_given_});
    }
    if (wal_pages_ >= options_.checkpoint_pages)
      checkpoint();
  }

  void give_up_append(const Error& why, End& end) {
    end.why = why.message;
    last_.reset();  // whatever happened, the file knows
    if (why.code == Errc::kExhausted)
      disk_full();
  }

  Result<void> insert(const LogEntry& entry) {
    last_mark_ = mark_of(entry.index, entry.last_seq, entry.closing, entry.bytes);
    return insert_entry_.bind(1, static_cast<std::int64_t>(entry.index))
        .bind(2, static_cast<std::int64_t>(entry.last_seq))
        .bind(3, entry.closing ? 1 : 0)
        .bind(4, last_mark_)
        .bind_blob(5, entry.bytes)
        .execute();
  }

  // Chunks of the next snapshot lie behind all that are there. Those before "snapshot_begin", and what was begun and
  // not ended before it, are nobody's.
  Result<void> try_snapshot(Term term, const SnapshotPart& part) {
    if (part.first == 0)
      begun_ = {part.index, static_cast<std::uint64_t>(TRY(db_.number("SELECT max(number) + 1 FROM chunks"))), 0};
    auto transaction = TRY(begin_as(term));
    auto insert = TRY(SqliteStatement::prepare(db_, "INSERT INTO chunks(number, mark, bytes) VALUES(?1, ?2, ?3)"));
    for (std::size_t i = 0; i < part.chunks.size(); ++i) {
      const std::string packed = compress(part.chunks[i]);
      const std::uint64_t number = part.first + i;
      TRY(insert.bind(1, static_cast<std::int64_t>(begun_.begin + number))
              .bind(2, mark_of(number, part.index, true, packed))
              .bind_blob(3, packed)
              .execute());
    }
    begun_.chunks += part.chunks.size();
    if (!part.last)
      return transaction.commit();
    TRY(set_fact("snapshot", part.index));
    TRY(set_fact("snapshot_chunks", begun_.chunks));
    TRY(set_fact("snapshot_begin", begun_.begin));
    TRY(db_.run(format("PRAGMA user_version={}", kLogFormat).c_str()));
    TRY(transaction.commit());
    begun_ = {};
    return {};
  }

  Result<void> sweep_chunks(Term term, SweepPiece& piece) {
    const std::uint64_t begin = TRY(fact("snapshot_begin"));
    auto select = TRY(SqliteStatement::prepare(
        db_, "SELECT number, length(bytes) FROM chunks WHERE number < ?1 ORDER BY number LIMIT ?2"));
    select.bind(1, static_cast<std::int64_t>(begin)).bind(2, static_cast<std::int64_t>(kSweepRows));
    std::optional<std::int64_t> upto;
    while (!piece.full() && TRY(select.step())) {
      upto = select.number(0);
      piece.drop(static_cast<std::size_t>(select.number(1)));
    }
    select.reset();
    if (!upto)
      return {};
    auto transaction = TRY(begin_as(term));
    auto erase = TRY(SqliteStatement::prepare(db_, "DELETE FROM chunks WHERE number <= ?1"));
    TRY(erase.bind(1, *upto).execute());
    return transaction.commit();
  }

  // Ids that go, and with which one the next piece begins.
  Result<BlobId> find_unused(const BlobId& from, const std::function<bool(const BlobId&)>& keep, SweepPiece& piece,
                             std::vector<std::string>& gone) {
    auto select = TRY(SqliteStatement::prepare(db_, "SELECT id FROM blobs WHERE id >= ?1 ORDER BY id"));
    auto length = TRY(SqliteStatement::prepare(db_, "SELECT length(bytes) FROM blobs WHERE id = ?1"));
    select.bind_text(1, from);
    while (TRY(select.step())) {
      BlobId id(select.text(0));
      if (piece.full())
        return id;
      piece.look();
      if (keep(id))
        continue;
      length.bind_text(1, id);
      piece.drop(TRY(length.step()) ? static_cast<std::size_t>(length.number(0)) : 0);
      length.reset();
      gone.push_back(std::move(id));
    }
    return BlobId();
  }

  Result<std::uint64_t> fact(std::string_view name) {
    auto select = TRY(SqliteStatement::prepare(db_, "SELECT value FROM facts WHERE name = ?1"));
    select.bind_text(1, name);
    return TRY(select.step()) ? static_cast<std::uint64_t>(select.number(0)) : std::uint64_t{0};
  }

  Result<void> set_fact(std::string_view name, std::uint64_t value) {
    auto insert = TRY(SqliteStatement::prepare(db_, "INSERT OR REPLACE INTO facts(name, value) VALUES(?1, ?2)"));
    return insert.bind_text(1, name).bind(2, static_cast<std::int64_t>(value)).execute();
  }

  // Copies the WAL back. A failure costs nothing but disk space: the entries are safe in the WAL.
  void checkpoint() {
    if (sqlite3_wal_checkpoint_v2(db_.native(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr) == SQLITE_OK)
      wal_pages_ = 0;
  }

  void disk_full() {
    reserve_.release();
    low_space_ = options_.reserve_bytes > 0;
    next_restore_s_ = monotonic_s() + kRestorePeriodS;
  }

  std::unique_ptr<DirectoryLock> lock_;
  DiskReserve reserve_;
  SqliteLogOptions options_;
  Sqlite db_;
  SqliteStatement insert_entry_, insert_blob_, select_blob_, select_entries_, select_term_;
  std::span<const Blob> put_;  // for the next append
  std::optional<std::uint64_t> last_;
  LogTip tip_;
  std::vector<std::string> notices_;
  std::uint64_t jobs_given_ = 0;
  bool is_whole_ = false;
  struct Begun {  // a snapshot of which parts are stored
    std::uint64_t index = 0;
    std::uint64_t begin = 0;  // number of its first chunk's row
    std::uint64_t chunks = 0;
  };
  Begun begun_;
  std::int64_t last_mark_ = 0;  // over the row that was inserted last
  std::int64_t wal_pages_ = 0;
  std::int64_t next_restore_s_ = 0;
  bool low_space_ = false;
};

}  // namespace

Result<std::unique_ptr<SqliteLog>> open_sqlite_log(const std::string& path, const SqliteLogOptions& options) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
  std::unique_ptr<DirectoryLock> lock;
  if (options.take_lock)
    lock = TRY(DirectoryLock::take(directory));
  TRY(look_at_header(path));
  auto db = TRY(Sqlite::open(path, options.vfs));
  auto store = std::make_unique<Store>(std::move(lock), DiskReserve(directory + "/reserve", options.reserve_bytes),
                                       options, std::move(db));
  TRY(store->prepare());
  if (const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    ::fsync(fd);  // the file's name must survive, too
    ::close(fd);
  }
  return std::unique_ptr<SqliteLog>(std::move(store));
}

}  // namespace lockstep
