#include "io/sqlite_history.h"

#include <sqlite3.h>

#include <map>

#include "base/text.h"
#include "io/history_rows.h"
#include "io/older_log_rows.h"
#include "io/sqlite.h"
#include "model/job.h"

namespace lockstep {

namespace {

constexpr std::int64_t kHistoryId = 0x4c534854;  // "LSHT"
constexpr std::int64_t kHistoryFormat = 1;

// One list for the table, the upsert and the select. kHeld columns are facts of the allocation: a later record without
// one (the job has ended) does not take them away.
enum class Keep : unsigned char { kLatest, kHeld };
struct Column {
  const char* name;
  const char* type;
  Keep keep;
  void (*bind)(SqliteStatement&, int, const RunRow&);
  void (*read)(const SqliteStatement&, int, RunRow&);
};

#define TEXT_COLUMN(column, field, keep)                                                                 \
  Column {                                                                                               \
    column, "TEXT", keep, [](SqliteStatement& s, int at, const RunRow& r) { s.bind_text(at, r.field); }, \
        [](const SqliteStatement& s, int at, RunRow& r) { r.field = s.text(at); }                        \
  }
#define NUMBER_COLUMN(column, field, keep)                                                                          \
  Column {                                                                                                          \
    column, "INTEGER", keep,                                                                                        \
        [](SqliteStatement& s, int at, const RunRow& r) { s.bind(at, static_cast<std::int64_t>(r.field)); },        \
        [](const SqliteStatement& s, int at, RunRow& r) { r.field = static_cast<decltype(r.field)>(s.number(at)); } \
  }
constexpr auto kLatest = Keep::kLatest;
constexpr auto kHeld = Keep::kHeld;

const Column kColumns[] = {
    NUMBER_COLUMN("job", row.job.value, kLatest),
    NUMBER_COLUMN("run", row.attempt, kLatest),
    NUMBER_COLUMN("array_job", row.array_job.value, kLatest),
    NUMBER_COLUMN("is_element", row.is_element, kLatest),
    NUMBER_COLUMN("array_index", row.array_index, kLatest),
    TEXT_COLUMN("name", row.name, kLatest),
    TEXT_COLUMN("user", row.user, kLatest),
    TEXT_COLUMN("account", row.account, kLatest),
    TEXT_COLUMN("qos", row.qos, kLatest),
    TEXT_COLUMN("state", row.state, kLatest),
    TEXT_COLUMN("work_dir", row.work_dir, kLatest),
    TEXT_COLUMN("comment", row.comment, kLatest),
    TEXT_COLUMN("command", row.command, kLatest),
    TEXT_COLUMN("reason", row.reason, kLatest),
    TEXT_COLUMN("wckey", row.wckey, kLatest),
    NUMBER_COLUMN("uid", row.uid, kLatest),
    NUMBER_COLUMN("gid", row.gid, kLatest),
    NUMBER_COLUMN("submitted_us", row.submitted_us, kLatest),
    NUMBER_COLUMN("eligible_us", row.eligible_us, kLatest),
    NUMBER_COLUMN("started_us", row.started_us, kLatest),
    NUMBER_COLUMN("ended_us", row.ended_us, kLatest),
    NUMBER_COLUMN("limit_s", row.limit_s, kLatest),
    NUMBER_COLUMN("suspended_us", row.suspended_us, kLatest),
    NUMBER_COLUMN("paused_us", row.paused_us, kLatest),
    NUMBER_COLUMN("exit_code", row.exit_code, kLatest),
    NUMBER_COLUMN("exit_signal", row.exit_signal, kLatest),
    NUMBER_COLUMN("derived_code", row.derived_code, kLatest),
    NUMBER_COLUMN("derived_signal", row.derived_signal, kLatest),
    NUMBER_COLUMN("restarts", row.restarts, kLatest),
    NUMBER_COLUMN("priority", row.priority, kLatest),
    TEXT_COLUMN("cancelled_by", row.cancelled_by, kLatest),
    NUMBER_COLUMN("asked_memory_mb", row.asked_memory_mb, kLatest),
    NUMBER_COLUMN("has_script", has_script, kLatest),
    TEXT_COLUMN("ending", ending, kLatest),
    NUMBER_COLUMN("has_allocation", has_allocation, kHeld),
    TEXT_COLUMN("partition", row.partition, kHeld),
    TEXT_COLUMN("node_list", row.node_list, kHeld),
    NUMBER_COLUMN("nodes", row.nodes, kHeld),
    NUMBER_COLUMN("cores", row.cores, kHeld),
    NUMBER_COLUMN("tasks", row.tasks, kHeld),
    NUMBER_COLUMN("devices", row.devices, kHeld),
    NUMBER_COLUMN("memory_mb", row.memory_mb, kHeld),
    TEXT_COLUMN("devices_text", row.devices_text, kHeld),
    TEXT_COLUMN("first_node", first_node, kHeld),
    NUMBER_COLUMN("first_cores", first_cores, kHeld),
    NUMBER_COLUMN("first_devices", first_devices, kHeld),
    NUMBER_COLUMN("first_memory_mb", first_memory_mb, kHeld),
    TEXT_COLUMN("used", script_used, kLatest),
};
#undef TEXT_COLUMN
#undef NUMBER_COLUMN

constexpr const char* kStepsTable =
    "CREATE TABLE steps(job INTEGER NOT NULL, run INTEGER NOT NULL, number INTEGER NOT NULL, name TEXT, state TEXT, "
    "work_dir TEXT, command TEXT, submitted_us INTEGER, started_us INTEGER, ended_us INTEGER, exit_code INTEGER, "
    "exit_signal INTEGER, nodes INTEGER, cores INTEGER, tasks INTEGER, devices INTEGER, memory_mb INTEGER, "
    "node_list TEXT, devices_text TEXT, used TEXT NOT NULL DEFAULT '', PRIMARY KEY(job, run, number)) WITHOUT ROWID";
constexpr const char* kIndexes[] = {
    "CREATE INDEX jobs_by_array ON jobs(array_job, array_index) WHERE array_job <> 0",
    "CREATE INDEX jobs_by_end ON jobs(ended_us)",
    "CREATE INDEX jobs_by_user ON jobs(user, ended_us)",
};

std::string jobs_table() {
  std::string sql = "CREATE TABLE jobs(";
  for (const auto& column : kColumns) sql += format("{} {} NOT NULL, ", column.name, column.type);
  return sql + "PRIMARY KEY(job, run)) WITHOUT ROWID";
}

std::string column_names() {
  std::vector<std::string> names;
  for (const auto& column : kColumns) names.emplace_back(column.name);
  return join(names, ", ");
}

// What ran and ended stays as it ended: a log that was put back from a backup may tell another story of it.
constexpr const char* kMayChange = "ended_us = 0 OR started_us = 0 OR ended_us = excluded.ended_us";

std::string upsert_sql() {
  std::vector<std::string> marks, sets;
  int at = 0;
  for (const auto& column : kColumns) {
    marks.push_back(format("?{}", ++at));
    if (at <= 2)
      continue;  // the key
    sets.push_back(
        column.keep == Keep::kLatest
            ? format("{0} = excluded.{0}", column.name)
            : format("{0} = iif(excluded.has_allocation OR NOT has_allocation, excluded.{0}, {0})", column.name));
  }
  return format("INSERT INTO jobs({}) VALUES({}) ON CONFLICT(job, run) DO UPDATE SET {} WHERE {}", column_names(),
                join(marks, ", "), join(sets, ", "), kMayChange);
}

using RunKey = std::pair<JobId, AttemptNo>;
struct RunNews {
  const Job* latest = nullptr;
  const Job* held = nullptr;  // the latest with an allocation
  Instant before_ended;       // when the run before this one ended; 0 = not known
};

// WHERE, with its values bound in order.
class Filter {
 public:
  void add(std::string condition) { conditions_.push_back(std::move(condition)); }
  std::string number(std::int64_t value) {
    numbers_.emplace_back(++next_, value);
    return format("?{}", next_);
  }
  std::string text(const std::string& value) {
    texts_.emplace_back(++next_, &value);
    return format("?{}", next_);
  }
  void among(const char* column, const std::vector<std::string>& values) {
    if (values.empty())
      return;
    std::vector<std::string> marks;
    for (const auto& value : values) marks.push_back(text(value));
    add(format("{} IN ({})", column, join(marks, ", ")));
  }
  std::string where() const { return conditions_.empty() ? "1" : join(conditions_, " AND "); }
  void bind(SqliteStatement& statement) const {
    for (const auto& [at, value] : numbers_) statement.bind(at, value);
    for (const auto& [at, value] : texts_) statement.bind_text(at, *value);
  }

 private:
  int next_ = 0;
  std::vector<std::string> conditions_;
  std::vector<std::pair<int, std::int64_t>> numbers_;
  std::vector<std::pair<int, const std::string*>> texts_;
};

std::size_t words_of(const JobRow& row) {
  std::size_t bytes = 0;
  for (const std::string* word :
       {&row.name, &row.user, &row.account, &row.partition, &row.qos, &row.state, &row.node_list, &row.work_dir,
        &row.comment, &row.command, &row.reason, &row.wckey, &row.devices_text, &row.cancelled_by})
    bytes += word->size();
  return bytes;
}

// Its rows, within what it may have.
struct FoundRows {
  explicit FoundRows(const HistoryQuery& asked) : query(asked) {}

  Result<void> add(JobRow row) {
    words += words_of(row);
    if (words > query.words_max)
      return Error{Errc::kExhausted, format("the rows have more than {} bytes of words", query.words_max), "reply"};
    rows.push_back(std::move(row));
    return {};
  }
  bool tells_commands_of(const JobRow& row) const {
    return !query.commands_of || (query.commands_of->uid == row.uid && query.commands_of->name == row.user);
  }

  const HistoryQuery& query;
  std::vector<JobRow> rows;
  std::size_t words = 0;
};

std::string wanted_jobs(Filter& filter, const std::vector<JobTarget>& targets) {
  std::vector<std::string> any;
  for (const auto& target : targets) {
    const std::string id = filter.number(static_cast<std::int64_t>(target.job.value));
    if (!target.elements) {
      any.push_back(format("job = {0} OR array_job = {0}", id));
      continue;
    }
    std::vector<std::string> ranges;
    for (const auto& range : target.elements->intervals())
      ranges.push_back(format("array_index BETWEEN {} AND {}", filter.number(range.low), filter.number(range.high)));
    any.push_back(format("array_job = {} AND ({})", id, join(ranges, " OR ")));
  }
  return "(" + join(any, " OR ") + ")";
}

// While it lives, SQLite stops after so many steps of its machine, whatever a question makes it scan and sort.
class StepBudget {
 public:
  StepBudget(const Sqlite& db, std::int64_t steps) : db_(db.native()), left_(steps / kEach) {
    sqlite3_progress_handler(
        db_, kEach, [](void* self) -> int { return --static_cast<StepBudget*>(self)->left_ < 0; }, this);
  }
  ~StepBudget() { sqlite3_progress_handler(db_, 0, nullptr, nullptr); }
  StepBudget(const StepBudget&) = delete;
  StepBudget& operator=(const StepBudget&) = delete;
  bool used_up() const { return left_ < 0; }

 private:
  static constexpr int kEach = 1'000;
  sqlite3* db_;
  std::int64_t left_;
};

class History final : public HistoryStore {
 public:
  History(Sqlite db, std::int64_t query_steps_max) : db_(std::move(db)), query_steps_max_(query_steps_max) {}

  Result<void> prepare() {
    const auto tables = db_.number("SELECT count(*) FROM sqlite_master");
    if (!tables.ok())
      return refused(tables.error().message);
    const std::int64_t id = TRY(db_.number("PRAGMA application_id"));
    const std::int64_t format_number = TRY(db_.number("PRAGMA user_version"));
    const bool is_new = *tables == 0 && id == 0;
    if (!is_new && id != kHistoryId)
      return refused("it is a database of another program");
    if (format_number > kHistoryFormat)
      return Error{Errc::kUnsupported, format("{} was written by a newer version: upgrade", db_.path()), {}};
    TRY(db_.run("PRAGMA journal_mode=WAL"));
    TRY(db_.run("PRAGMA synchronous=FULL"));
    TRY(db_.run("PRAGMA cache_size=-2048"));
    // Debian's SQLite overwrites what is deleted: a gigabyte of old entries would be written once more as it goes.
    TRY(db_.run("PRAGMA secure_delete=FALSE"));
    if (!is_new)
      TRY(check_pages());
    if (is_new)
      TRY(create());
    else
      TRY(add_columns());
    upsert_ = TRY(SqliteStatement::prepare(db_, upsert_sql()));
    const auto sound = SqliteStatement::prepare(db_, "SELECT " + column_names() + " FROM jobs");
    if (!sound.ok())
      return refused("its tables are not ours");
    erase_ = TRY(SqliteStatement::prepare(db_, "DELETE FROM jobs WHERE job = ?1 AND run = ?2"));
    close_ = TRY(SqliteStatement::prepare(
        db_,
        "UPDATE jobs SET state = iif(ending = '', 'requeued', ending), ending = '', ended_us = ?3 "
        "WHERE job = ?1 AND run < ?2 AND ended_us = 0"));
    known_run_ = TRY(SqliteStatement::prepare(db_, "SELECT 1 FROM jobs WHERE job = ?1 AND run = ?2"));
    put_step_ = TRY(SqliteStatement::prepare(
        db_,
        "INSERT INTO steps VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
        "?19, ?20) "
        "ON CONFLICT(job, run, number) DO UPDATE SET name = excluded.name, state = excluded.state, "
        "work_dir = excluded.work_dir, command = excluded.command, submitted_us = excluded.submitted_us, "
        "started_us = excluded.started_us, ended_us = excluded.ended_us, exit_code = excluded.exit_code, "
        "exit_signal = excluded.exit_signal, nodes = excluded.nodes, cores = excluded.cores, tasks = excluded.tasks, "
        "devices = excluded.devices, memory_mb = excluded.memory_mb, node_list = excluded.node_list, "
        "devices_text = excluded.devices_text, used = excluded.used WHERE ended_us = 0 OR ended_us = "
        "excluded.ended_us"));
    run_of_key_ =
        TRY(SqliteStatement::prepare(db_, format("SELECT {} FROM jobs WHERE job = ?1 AND run = ?2", column_names())));
    steps_of_ = TRY(SqliteStatement::prepare(db_, "SELECT * FROM steps WHERE job = ?1 AND run = ?2 ORDER BY number"));
    used_by_steps_ = TRY(SqliteStatement::prepare(db_, "SELECT used FROM steps WHERE job = ?1 AND run = ?2"));
    put_cursor_ = TRY(SqliteStatement::prepare(db_, "INSERT OR REPLACE INTO facts VALUES('cursor', ?1)"));
    return {};
  }

  Result<std::uint64_t> cursor() override {
    return static_cast<std::uint64_t>(TRY(db_.number("SELECT value FROM facts WHERE name = 'cursor'")));
  }

  Result<void> take(std::uint64_t index, std::span<const Change> changes, const Tables& tables) override {
    auto transaction = TRY(SqliteTransaction::begin(db_));
    // Only the last version of each run and step is written, however often it changed meanwhile.
    std::map<RunKey, RunNews> runs;
    std::map<std::tuple<JobId, AttemptNo, StepNo>, const Step*> steps;
    for (const auto& change : changes) {
      if (change.removed)
        continue;  // records leave the cluster, not its history
      if (const auto* job = std::get_if<Ref<Job>>(&change.record)) {
        RunNews& news = runs[{(*job)->id, TRY(run_of(**job, runs))}];
        news.latest = job->get();
        if ((*job)->state == JobState::kPending && (*job)->ended)
          news.before_ended = (*job)->ended;
        if ((*job)->allocation)
          news.held = job->get();
      } else if (const auto* step = std::get_if<Ref<Step>>(&change.record)) {
        steps[{(*step)->job, (*step)->attempt, (*step)->number}] = step->get();
      }
    }
    for (const auto& [key, news] : runs) TRY(put_run(key, news, tables));
    for (const auto& [key, step] : steps) TRY(put_step(step_row(*step, tables)));
    TRY(put_cursor_.bind(1, static_cast<std::int64_t>(index)).execute());
    return transaction.commit();
  }

  Result<std::vector<JobRow>> query(const HistoryQuery& query) override {
    const StepBudget budget(db_, query_steps_max_);
    auto rows = query_within(query);
    if (!rows.ok() && budget.used_up())
      return Error{
          Errc::kExhausted, "the question takes too long: narrow it by time (-S, -E), user, account or job", {}};
    return rows;
  }

  Result<JobId> highest_job() override {
    return JobId(static_cast<std::uint64_t>(TRY(db_.number("SELECT max(job) FROM jobs"))));
  }

  Result<std::size_t> close_lost(const Tables& tables, WallTime now) override {
    std::vector<std::int64_t> lost;
    auto open_ones = TRY(SqliteStatement::prepare(db_, "SELECT DISTINCT job FROM jobs WHERE ended_us = 0"));
    while (TRY(open_ones.step()))
      if (!tables.job(JobId(static_cast<std::uint64_t>(open_ones.number(0)))))
        lost.push_back(open_ones.number(0));
    if (lost.empty())
      return std::size_t{0};
    auto transaction = TRY(SqliteTransaction::begin(db_));
    // One that ran is charged up to its start: how long it went on, nobody knows.
    auto job = TRY(SqliteStatement::prepare(
        db_,
        "UPDATE jobs SET state = iif(started_us > 0, 'node_fail', 'cancelled'), reason = 'LostFromLog', "
        "ended_us = iif(started_us > 0, started_us, ?2) WHERE job = ?1 AND ended_us = 0"));
    auto steps = TRY(SqliteStatement::prepare(
        db_, "UPDATE steps SET state = 'cancelled', ended_us = max(started_us, 1) WHERE job = ?1 AND ended_us = 0"));
    for (const std::int64_t id : lost) {
      TRY(job.bind(1, id).bind(2, now.us).execute());
      TRY(steps.bind(1, id).execute());
    }
    TRY(transaction.commit());
    return lost.size();
  }

  Result<void> note_older_log() override { return note(OlderLog::kFound); }

  Result<std::vector<AttemptSeen>> settle_older_log(const Tables& tables) override {
    const std::int64_t noted = TRY(db_.number("SELECT value FROM facts WHERE name = 'older_log'"));
    if (noted == 0)
      return std::vector<AttemptSeen>();
    auto transaction = TRY(SqliteTransaction::begin(db_));
    auto beyond = TRY(settle_rows_beyond(db_, tables, OlderLog{noted}));
    if (beyond.empty())
      TRY(db_.run("DELETE FROM facts WHERE name = 'older_log'"));
    else
      TRY(note(OlderLog::kRunsEnded));
    TRY(transaction.commit());
    return beyond;
  }

  Result<std::vector<EndedRun>> latest_runs(std::size_t most) override {
    auto select = TRY(SqliteStatement::prepare(
        db_,
        "SELECT uid, user, name, partition, cores, devices, limit_s, ended_us - started_us FROM jobs "
        "WHERE ended_us > 0 AND started_us > 0 AND state IN ('completed', 'failed', 'timeout', 'out_of_memory') "
        "ORDER BY ended_us DESC, job DESC LIMIT ?1"));
    select.bind(1, static_cast<std::int64_t>(most));
    std::vector<EndedRun> runs;
    while (TRY(select.step()))
      runs.push_back({.uid = static_cast<std::uint32_t>(select.number(0)),
                      .user = std::string(select.text(1)),
                      .name = std::string(select.text(2)),
                      .partition = std::string(select.text(3)),
                      .cores = static_cast<std::uint32_t>(select.number(4)),
                      .devices = static_cast<std::uint32_t>(select.number(5)),
                      .limit_s = select.number(6),
                      .ran = micros(std::max<std::int64_t>(0, select.number(7)))});
    std::reverse(runs.begin(), runs.end());
    return runs;
  }

 private:
  Result<void> note(OlderLog how) {
    auto statement = TRY(SqliteStatement::prepare(db_, "INSERT OR REPLACE INTO facts VALUES('older_log', ?1)"));
    return statement.bind(1, static_cast<std::int64_t>(how)).execute();
  }

  Result<std::vector<JobRow>> query_within(const HistoryQuery& query) {
    Filter filter;
    if (!query.jobs.empty())
      filter.add(wanted_jobs(filter, query.jobs));
    filter.among("user", query.users);
    filter.among("account", query.accounts);
    filter.among("partition", query.partitions);
    filter.among("name", query.names);
    filter.among("state", query.states);
    if (query.from_us > 0)
      filter.add(format("(ended_us = 0 OR ended_us >= {})", filter.number(query.from_us)));
    if (query.to_us < INT64_MAX)
      filter.add(format("submitted_us < {}", filter.number(query.to_us)));
    if (!query.duplicates)
      filter.add("NOT EXISTS (SELECT 1 FROM jobs AS later WHERE later.job = jobs.job AND later.run > jobs.run)");
    FoundRows found(query);
    for (const RunKey& key : TRY(keys_of(filter, query.limit))) {
      if (found.rows.size() >= query.limit)
        break;
      TRY(add_run(found, key));
    }
    if (found.rows.size() > query.limit)
      found.rows.resize(query.limit);
    TRY(mark_last_elements(found.rows));
    return std::move(found.rows);
  }

  // In the order of the answer. Sorting whole rows would take their words along.
  Result<std::vector<RunKey>> keys_of(const Filter& filter, std::size_t most) {
    auto select = TRY(SqliteStatement::prepare(
        db_, format("SELECT job, run FROM jobs WHERE {} ORDER BY iif(is_element, array_job, job), is_element, "
                    "array_index, job, run LIMIT {}",
                    filter.where(), most)));
    filter.bind(select);
    std::vector<RunKey> keys;
    while (TRY(select.step()))
      keys.emplace_back(JobId(static_cast<std::uint64_t>(select.number(0))), static_cast<AttemptNo>(select.number(1)));
    return keys;
  }

  Result<void> add_run(FoundRows& found, const RunKey& key) {
    run_of_key_.bind(1, static_cast<std::int64_t>(key.first.value)).bind(2, key.second);
    RunRow run;
    if (TRY(run_of_key_.step())) {
      int at = 0;
      for (const auto& column : kColumns) column.read(run_of_key_, at++, run);
    }
    run_of_key_.reset();
    run.row.cpu_us = TRY(cpu_of(run));
    TRY(found.add(run.row));
    return found.query.steps ? add_steps(found, run) : Result<void>();
  }

  // CPU time of the script and the steps that have ended.
  Result<std::int64_t> cpu_of(const RunRow& run) {
    const auto cpu_in = [](std::string_view used) {
      const auto use = parse_work_use(used);
      return use ? (use->user + use->system).us : 0;
    };
    std::int64_t sum = cpu_in(run.script_used);
    used_by_steps_.bind(1, static_cast<std::int64_t>(run.row.job.value)).bind(2, run.row.attempt);
    while (TRY(used_by_steps_.step())) sum += cpu_in(used_by_steps_.text(0));
    used_by_steps_.reset();
    return sum;
  }

  // While an array has a row of its own, that one stands for what waits.
  Result<void> mark_last_elements(std::vector<JobRow>& rows) {
    auto select = TRY(SqliteStatement::prepare(
        db_,
        "SELECT iif(EXISTS (SELECT 1 FROM jobs WHERE job = ?1), -1, max(array_index)) FROM jobs "
        "WHERE array_job = ?1 AND array_job <> 0"));
    std::map<JobId, std::int64_t> last;
    for (JobRow& row : rows) {
      if (!row.is_element)
        continue;
      const auto [found, fresh] = last.try_emplace(row.array_job, -1);
      if (fresh) {
        select.bind(1, static_cast<std::int64_t>(row.array_job.value));
        if (TRY(select.step()))
          found->second = select.number(0);
        select.reset();
      }
      row.ends_array = found->second == row.array_index;
    }
    return {};
  }

  // Rows carry no checksum: of a file that is not long the structure is looked through, of any other what is read.
  Result<void> check_pages() {
    constexpr std::int64_t kLookThroughPages = 4'096;  // 16 MiB, as of the log
    const auto pages = db_.number("PRAGMA page_count");
    if (pages.ok() && *pages > kLookThroughPages)
      return {};
    const auto said = db_.text("PRAGMA quick_check(1)");
    return said.ok() && *said == "ok" ? Result<void>() : refused(one_line(said.ok() ? *said : said.error().message));
  }

  Error refused(std::string_view why) const {
    return {Errc::kCorrupt,
            format("{} is not a Lockstep history file, or is damaged: {}. It was left as it is: restore it from a "
                   "backup, or move it away",
                   db_.path(), why),
            {}};
  }

  Result<void> create() {
    auto transaction = TRY(SqliteTransaction::begin(db_));
    TRY(db_.run(jobs_table().c_str()));
    TRY(db_.run(kStepsTable));
    TRY(db_.run("CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL)"));
    for (const char* index : kIndexes) TRY(db_.run(index));
    TRY(db_.run(format("PRAGMA application_id={}", kHistoryId).c_str()));
    TRY(db_.run(format("PRAGMA user_version={}", kHistoryFormat).c_str()));
    return transaction.commit();
  }

  // Columns that came later. What is no history of ours is left alone: reading it fails then.
  Result<void> add_columns() {
    for (const char* name : {"suspended_us", "paused_us"}) {
      const auto known =
          db_.number(format("SELECT count(*) FROM pragma_table_info('jobs') WHERE name = '{}'", name).c_str());
      const auto table = db_.number("SELECT count(*) FROM pragma_table_info('jobs')");
      if (known.ok() && table.ok() && *known == 0 && *table > 0)
        TRY(db_.run(format("ALTER TABLE jobs ADD COLUMN {} INTEGER NOT NULL DEFAULT 0", name).c_str()));
    }
    for (const char* table : {"jobs", "steps"}) {
      const auto known =
          db_.number(format("SELECT count(*) FROM pragma_table_info('{}') WHERE name = 'used'", table).c_str());
      const auto any = db_.number(format("SELECT count(*) FROM pragma_table_info('{}')", table).c_str());
      if (known.ok() && any.ok() && *known == 0 && *any > 0)
        TRY(db_.run(format("ALTER TABLE {} ADD COLUMN used TEXT NOT NULL DEFAULT ''", table).c_str()));
    }
    return {};
  }

  Result<AttemptNo> run_of(const Job& job, const std::map<RunKey, RunNews>& runs) {
    if (job.state == JobState::kPending)
      return job.attempt + 1;
    if (!is_final(job.state) || job.started || job.attempt == 0)
      return std::max(job.attempt, AttemptNo{1});
    // It ended without having run: in the queue, where its run was seen waiting before, or while starting.
    const AttemptNo next = job.attempt + 1;
    if (runs.contains({job.id, next}))
      return next;
    if (runs.contains({job.id, job.attempt}))
      return job.attempt;
    known_run_.bind(1, static_cast<std::int64_t>(job.id.value)).bind(2, next);
    const bool waited = TRY(known_run_.step());
    known_run_.reset();
    return waited ? next : job.attempt;
  }

  Result<void> put_run(const RunKey& key, const RunNews& news, const Tables& tables) {
    const Job& job = *news.latest;
    if (job.array && !array_tells(job))
      return erase_.bind(1, static_cast<std::int64_t>(key.first.value)).bind(2, key.second).execute();
    RunRow run = run_row(job, tables);
    run.row.attempt = key.second;
    if (news.held != nullptr)
      add_allocation(run, *news.held, tables);
    int at = 0;
    for (const auto& column : kColumns) column.bind(upsert_, ++at, run);
    TRY(upsert_.execute());
    if (key.second == 1)
      return {};
    // What came before this run is over, even if its last record went by unseen.
    const Instant ended = news.before_ended ? news.before_ended : job.eligible;
    return close_.bind(1, static_cast<std::int64_t>(key.first.value))
        .bind(2, key.second)
        .bind(3, wall_us(ended, tables))
        .execute();
  }

  Result<void> put_step(const JobRow& row) {
    return put_step_.bind(1, static_cast<std::int64_t>(row.job.value))
        .bind(2, row.attempt)
        .bind(3, row.step)
        .bind_text(4, row.name)
        .bind_text(5, row.state)
        .bind_text(6, row.work_dir)
        .bind_text(7, row.command)
        .bind(8, row.submitted_us)
        .bind(9, row.started_us)
        .bind(10, row.ended_us)
        .bind(11, row.exit_code)
        .bind(12, row.exit_signal)
        .bind(13, row.nodes)
        .bind(14, row.cores)
        .bind(15, row.tasks)
        .bind(16, row.devices)
        .bind(17, row.memory_mb)
        .bind_text(18, row.node_list)
        .bind_text(19, row.devices_text)
        .bind_text(20, row.use.tasks > 0 ? text_of(row.use) : std::string())
        .execute();
  }

  // Steps carry what they share with their job, so that a row can be read alone.
  Result<void> add_steps(FoundRows& found, const RunRow& run) {
    const bool tells_commands = found.tells_commands_of(run.row);
    if (run.has_script && run.row.started_us != 0) {
      JobRow row = batch_row(run);
      if (!tells_commands)
        row.command.clear();
      TRY(found.add(std::move(row)));
    }
    auto& s = steps_of_;
    s.bind(1, static_cast<std::int64_t>(run.row.job.value)).bind(2, run.row.attempt);
    Result<void> added;
    while (added.ok() && TRY(s.step())) {
      JobRow row = run.row;
      row.step = static_cast<StepNo>(s.number(2));
      row.name = s.text(3);
      row.state = s.text(4);
      row.work_dir = s.text(5);
      row.command = tells_commands ? s.text(6) : std::string_view();
      row.submitted_us = row.eligible_us = s.number(7);
      row.started_us = s.number(8);
      row.ended_us = s.number(9);
      row.exit_code = static_cast<std::int32_t>(s.number(10));
      row.exit_signal = static_cast<std::int32_t>(s.number(11));
      row.nodes = static_cast<std::uint32_t>(s.number(12));
      row.cores = static_cast<std::uint32_t>(s.number(13));
      row.tasks = static_cast<std::uint32_t>(s.number(14));
      row.devices = static_cast<std::uint32_t>(s.number(15));
      row.memory_mb = s.number(16);
      row.node_list = s.text(17);
      row.devices_text = s.text(18);
      row.use = parse_work_use(s.text(19)).value_or(WorkUse{});
      row.cpu_us = (row.use.user + row.use.system).us;
      row.reason.clear();
      row.asked_memory_mb = 0;
      added = found.add(std::move(row));
    }
    s.reset();
    return added;
  }

  Sqlite db_;
  std::int64_t query_steps_max_;
  SqliteStatement upsert_, erase_, close_, known_run_, put_step_, run_of_key_, steps_of_, used_by_steps_, put_cursor_;
};

}  // namespace

Result<std::unique_ptr<HistoryStore>> open_sqlite_history(const std::string& path, const std::string& vfs,
                                                          std::int64_t query_steps_max) {
  auto store = std::make_unique<History>(TRY(Sqlite::open(path, vfs)), query_steps_max);
  TRY(store->prepare());
  return std::unique_ptr<HistoryStore>(std::move(store));
}

}  // namespace lockstep
