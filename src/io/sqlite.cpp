#include "io/sqlite.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"

namespace lockstep {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

namespace {

Error make_error(sqlite3* db, int code, std::string_view path, std::string_view doing) {
  const char* why = db != nullptr && sqlite3_errcode(db) == code ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  Errc errc = Errc::kIo;
  switch (code & 0xff) {
    case SQLITE_FULL: errc = Errc::kExhausted; break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: errc = Errc::kCorrupt; break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: errc = Errc::kUnavailable; break;
    case SQLITE_IOERR:
      if (db != nullptr && (sqlite3_system_errno(db) == ENOSPC || sqlite3_system_errno(db) == EDQUOT))
        errc = Errc::kExhausted;
      break;
    default: break;
  }
  return {errc, format("{}: {}: {}", path, doing, why), {}};
}

}  // namespace

Sqlite& Sqlite::operator=(Sqlite&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(path_, other.path_);
  return *this;
}

Sqlite::~Sqlite() { sqlite3_close_v2(db_); }

Result<Sqlite> Sqlite::open(const std::string& path, const std::string& vfs) {
  return open_as(path, vfs, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

Result<Sqlite> Sqlite::open_existing(const std::string& path, int flags) { return open_as(path, {}, flags); }

Result<Sqlite> Sqlite::open_as(const std::string& path, const std::string& vfs, int flags) {
  Sqlite db;
  db.path_ = path;
  const int code = sqlite3_open_v2(path.c_str(), &db.db_, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                                   vfs.empty() ? nullptr : vfs.c_str());
  if (code != SQLITE_OK)
    return db.error(code, "cannot open");
  sqlite3_busy_timeout(db.db_, 5000);
  return db;
}

Error Sqlite::error(int code, std::string_view doing) const { return make_error(db_, code, path_, doing); }
bool Sqlite::in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

Result<void> Sqlite::run(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK)
    return error(code, sql);
  return {};
}

Result<std::int64_t> Sqlite::number(const char* sql) {
  auto statement = TRY(SqliteStatement::prepare(*this, sql));
  return TRY(statement.step()) ? statement.number(0) : 0;
}

Result<std::string> Sqlite::text(const char* sql) {
  auto statement = TRY(SqliteStatement::prepare(*this, sql));
  return TRY(statement.step()) ? std::string(statement.text(0)) : std::string();
}

SqliteStatement& SqliteStatement::operator=(SqliteStatement&& other) noexcept {
  std::swap(statement_, other.statement_);
  return *this;
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

Result<SqliteStatement> SqliteStatement::prepare(const Sqlite& db, std::string_view sql) {
  SqliteStatement made;
  const int code = sqlite3_prepare_v3(db.native(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                      &made.statement_, nullptr);
  if (code != SQLITE_OK)
    return db.error(code, "cannot prepare");
  return made;
}

SqliteStatement& SqliteStatement::bind(int at, std::int64_t value) {
  CHECK(sqlite3_bind_int64(statement_, at, value) == SQLITE_OK);
  return *this;
}
SqliteStatement& SqliteStatement::bind_text(int at, std::string_view value) {
  CHECK(sqlite3_bind_text(statement_, at, value.data() != nullptr ? value.data() : "", static_cast<int>(value.size()),
                          SQLITE_STATIC) == SQLITE_OK);
  return *this;
}
SqliteStatement& SqliteStatement::bind_blob(int at, std::string_view value) {
  // A null pointer would bind NULL instead of an empty value.
  CHECK(sqlite3_bind_blob64(statement_, at, value.data() != nullptr ? value.data() : "", value.size(), SQLITE_STATIC) ==
        SQLITE_OK);
  return *this;
}

Result<bool> SqliteStatement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW)
    return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  sqlite3* db = sqlite3_db_handle(statement_);
  const char* path = sqlite3_db_filename(db, "main");
  Error error = make_error(db, code, path != nullptr ? path : "", sqlite3_sql(statement_));
  reset();
  return error;
}

void SqliteStatement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Result<void> SqliteStatement::execute() {
  while (TRY(step())) {}
  return {};
}

std::int64_t SqliteStatement::number(int column) const { return sqlite3_column_int64(statement_, column); }

std::string_view SqliteStatement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return data != nullptr ? std::string_view(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)))
                         : std::string_view();
}

std::string_view SqliteStatement::blob(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return data != nullptr ? std::string_view(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)))
                         : std::string_view();
}

Result<SqliteTransaction> SqliteTransaction::begin(Sqlite& db) {
  TRY(db.run("BEGIN IMMEDIATE"));
  return SqliteTransaction(db);
}

SqliteTransaction::~SqliteTransaction() {
  if (db_ != nullptr && db_->in_transaction())
    (void)db_->run("ROLLBACK");  // SQLite may have rolled back by itself; either way nothing of it stays
}

Result<void> SqliteTransaction::commit() {
  TRY(db_->run("COMMIT"));
  db_ = nullptr;
  return {};
}

}  // namespace lockstep
