// A thin hand on SQLite: a connection, prepared statements, and errors as values. Used by the log and the history.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lockstep {

// What SQLite says over several lines, as one: a log and a status show a line.
std::string one_line(std::string text);

class Sqlite {
 public:
  Sqlite() = default;
  Sqlite(Sqlite&& other) noexcept : db_(std::exchange(other.db_, nullptr)), path_(std::move(other.path_)) {}
  Sqlite& operator=(Sqlite&& other) noexcept;
  ~Sqlite();

  // vfs "" = SQLite's own.
  static Result<Sqlite> open(const std::string& path, const std::string& vfs);
  // One that is there; flags of sqlite3_open_v2 say how.
  static Result<Sqlite> open_existing(const std::string& path, int flags);
  Result<void> run(const char* sql);
  Result<std::int64_t> number(const char* sql);  // first column of the first row; 0 without a row
  Result<std::string> text(const char* sql);     // the same; "" without a row
  Error error(int code, std::string_view doing) const;
  bool in_transaction() const;
  sqlite3* native() const { return db_; }
  const std::string& path() const { return path_; }

 private:
  static Result<Sqlite> open_as(const std::string& path, const std::string& vfs, int flags);

  sqlite3* db_ = nullptr;
  std::string path_;
};

// One prepared statement, reset after each use.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  SqliteStatement(SqliteStatement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  SqliteStatement& operator=(SqliteStatement&& other) noexcept;
  ~SqliteStatement();
  static Result<SqliteStatement> prepare(const Sqlite& db, std::string_view sql);

  // Bound text and blobs must live until the next reset().
  SqliteStatement& bind(int at, std::int64_t value);
  SqliteStatement& bind_text(int at, std::string_view value);
  SqliteStatement& bind_blob(int at, std::string_view value);

  Result<bool> step();  // true: a row is there. Resets by itself when there is none, or on an error
  void reset();
  Result<void> execute();  // step() to the end

  std::int64_t number(int column) const;
  std::string_view text(int column) const;  // valid until the next step
  std::string_view blob(int column) const;

 private:
  sqlite3_stmt* statement_ = nullptr;
};

// Begins at once; rolls back unless commit() succeeded.
class SqliteTransaction {
 public:
  static Result<SqliteTransaction> begin(Sqlite& db);
  SqliteTransaction(SqliteTransaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  ~SqliteTransaction();
  Result<void> commit();

 private:
  explicit SqliteTransaction(Sqlite& db) : db_(&db) {}
  Sqlite* db_;
};

}  // namespace lockstep
