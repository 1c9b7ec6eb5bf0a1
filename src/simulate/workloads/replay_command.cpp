// lockstep-sim replay: a cluster's own history under another policy, on its own nodes. Reads copies of the state
// directory's databases, so that a controller may be using them.
#include <sys/stat.h>

#include <cstdio>

#include "base/text.h"
#include "foresight/replay.h"
#include "io/sqlite.h"
#include "io/sqlite_history.h"
#include "io/sqlite_log.h"
#include "io/temp_dir.h"
#include "simulate/command.h"
#include "simulate/workloads/queue_policies.h"
#include "simulate/workloads/queue_report.h"
#include "wire/entry_stream.h"
#include "wire/foresight.h"
#include "wire/yaml.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kPage = 256;

Result<std::string> copy_of(const std::string& dir, const std::string& name, const TempDir& to) {
  const std::string from = dir + "/" + name, copy = to.file(name);
  struct stat found {};
  if (::stat(from.c_str(), &found) != 0 || found.st_size == 0)
    return invalid(format("{} is not there: --dir takes a cluster's state directory", from), "--dir");
  Sqlite db = TRY(Sqlite::open(from, ""));
  TRY(db.run(format("VACUUM INTO '{}'", copy).c_str()));
  return copy;
}

// The records as the log leaves them.
Result<Tables> tables_of(const std::string& path) {
  const auto log = TRY(open_sqlite_log(path, {.reserve_bytes = 0, .take_lock = false}));
  Tables tables;
  LongValues apart(nullptr, [&log](const BlobId& id) { return log->blob(id); });
  EntryReader reader(nullptr, &apart);
  const auto take = [&](std::string_view bytes, bool closing) -> Result<void> {
    if (TRY(reader.add(bytes, closing)))
      for (const Change& change : reader.take().changes) tables.apply(change);
    return {};
  };
  const Log::Snapshot snapshot = TRY(log->read_snapshot());
  for (const std::string& chunk : snapshot.chunks) TRY(take(chunk, &chunk == &snapshot.chunks.back()));
  for (std::uint64_t index = snapshot.index;;) {
    const auto entries = TRY(log->read(index + 1, kPage));
    if (entries.empty())
      return tables;
    for (const LogEntry& entry : entries) {
      index = entry.index;
      TRY(take(entry.bytes, entry.closing));
    }
  }
}

Result<std::string> text_of_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (!file)
    return Error{Errc::kIo, format("cannot read {}", path), {}};
  std::string text;
  char buffer[65536];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
  std::fclose(file);
  return text;
}

// "FILE: line 3: …" for whatever is wrong in it.
struct ChangesFile {
  std::string path;
  YamlText yaml;
  std::vector<ChangeAsk> changes;

  Error at(const Error& error) const {
    const std::size_t line = yaml.line_of(error.field);
    return invalid(line ? format("{}: line {}: {}", path, line, error.message) : error.message);
  }
};
Result<ChangesFile> read_changes(const std::string& path) {
  ChangesFile file{.path = path, .yaml = {}, .changes = {}};
  if (path.empty())
    return file;
  auto yaml = json_of_yaml(TRY(text_of_file(path)));
  if (!yaml.ok())
    return invalid(format("{}: {}", path, yaml.error().message));
  file.yaml = std::move(*yaml);
  auto changes = decode_changes(file.yaml.json);
  if (!changes.ok())
    return file.at(changes.error());
  file.changes = std::move(*changes);
  return file;
}

struct Outcome {
  std::size_t left_out = 0;
  bool by_devices = true;  // sizes are GPUs; else cores
  QueueFigures recorded, replayed;
};

// Plays the finished jobs of a cluster once more: with `policy` "default" by its own planner, else by a published
// policy.
Result<Outcome> simulate(const std::string& dir, const std::string& policy, const ChangesFile& file) {
  const TempDir copies;
  const Tables tables = TRY(tables_of(TRY(copy_of(dir, "lockstep.db", copies))));
  const auto history = TRY(open_sqlite_history(TRY(copy_of(dir, "history.db", copies))));
  const std::vector<JobRow> rows = TRY(history->query({.steps = false, .limit = 10'000'000}));
  auto played = replay(tables, rows, file.changes);
  if (!played.ok())
    return played.error().field.empty() ? played.error() : file.at(played.error());
  Outcome out;
  out.left_out = played->left_out.size();
  for (std::size_t i = 0; i < played->left_out.size() && i < 5; ++i)
    std::fprintf(stderr, "job %llu is left out: %s\n", static_cast<unsigned long long>(played->left_out[i].first.value),
                 played->left_out[i].second.c_str());
  if (played->jobs.empty())
    return invalid("no recorded job can be replayed");
  out.by_devices = played->devices > 0 && std::all_of(played->jobs.begin(), played->jobs.end(),
                                                      [](const ReplayedJob& job) { return job.devices > 0; });
  const auto capacity = static_cast<std::int64_t>(out.by_devices ? played->devices : played->cores);
  std::vector<TraceJob> jobs;
  std::vector<std::int64_t> recorded_s, start_s;
  for (const ReplayedJob& job : played->jobs) {
    const std::int64_t limit_s = job.limit_s > 0 ? job.limit_s : 365 * 86'400;
    jobs.push_back({.id = static_cast<std::int64_t>(job.id.value),
                    .size = std::max<std::int64_t>(1, out.by_devices ? job.devices : job.cores),
                    .limit_s = std::max(limit_s, job.ran_s),
                    .run_s = job.ran_s,
                    .submit_s = job.submitted_s,
                    .user = job.user,
                    .published_start_s = std::nullopt});
    recorded_s.push_back(job.recorded_s);
    start_s.push_back(job.start_s);
  }
  if (policy != "default") {
    // The published policies know one flat pool.
    QueueRun run = TRY(run_policy(jobs, 1, static_cast<std::int32_t>(capacity), {.policy = policy}));
    start_s = std::move(run.start_s);
  }
  out.recorded = figures_of(jobs, recorded_s, capacity);
  out.replayed = figures_of(jobs, start_s, capacity);
  return out;
}

void print(const Outcome& out, const std::string& policy, bool json) {
  if (json) {
    JsonText text;
    text.object()
        .field("policy", policy)
        .field("left_out", out.left_out)
        .field("sizes", out.by_devices ? "gpus" : "cores");
    for (const auto& [name, figures] : {std::pair("recorded", &out.recorded), std::pair("replayed", &out.replayed)}) {
      text.key(name).object();
      add_figures(text, *figures);
      text.end();
    }
    std::printf("%s\n", text.end().take().c_str());
    return;
  }
  std::printf("%-28s %14s\n\n", "recorded", "");
  print_figures(out.recorded);
  std::printf("\n%-28s %14s\n\n", "replayed", policy.c_str());
  print_figures(out.replayed);
  if (out.left_out)
    std::printf("\n%-28s %14zu\n", "left out", out.left_out);
}

int run_replay(std::span<char*> words) {
  const auto options = Options::parse(words, {"--dir", "--policy", "--changes"}, {"--json"});
  const auto dir = options.ok() ? options->text("--dir") : Result<std::string>(options.error());
  if (!dir.ok())
    return usage_error(kReplayCommand, dir.error());
  const std::string policy = options->text_or("--policy", "default");
  const auto file = read_changes(options->text_or("--changes", ""));
  auto outcome = file.ok() ? simulate(*dir, policy, *file) : Result<Outcome>(file.error());
  if (!outcome.ok()) {
    std::fprintf(stderr, "lockstep-sim replay: %s\n", outcome.error().message.c_str());
    return outcome.error().field.empty() ? 1 : 2;
  }
  print(*outcome, policy, options->has("--json"));
  return 0;
}

}  // namespace

const SimCommand kReplayCommand = {
    "replay",
    "lockstep-sim replay --dir STATE [--policy default|fcfs|easy|conservative|easy-sjbf] [--changes FILE.yaml] "
    "[--json]\n"
    "    a cluster's own finished jobs once more, with the run times they had: by default through the real core and\n"
    "    planner on the cluster's nodes, with the changes of a what-if file; published policies on one flat pool\n",
    run_replay,
};

}  // namespace lockstep::sim
