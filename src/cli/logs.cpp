// `lockstep logs`: the log of the controller or of a node, or what a job wrote, with how it ended.
#include <fcntl.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/installed.h"
#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/cluster_dir.h"
#include "cli/installed_node.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/query_call.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep logs controller|NODE|JOB [options]

controller  what befell jobs and nodes, who asked for what, what went wrong: by time, on the controller's machine
NODE        the log of a node of this machine: its agent and its first process
JOB         what its script wrote (12, or 12_3 of an array), then how it ended

  -f, --follow     go on as more is written, until Ctrl-C; of a job until it has ended
  --since WHEN     nothing older: 90s, 10m, 2h, 3d ago, or 2026-03-01[T12:00[:00]]. Of controller and nodes
  --rank N         only lines of this rank, where srun -l has labelled them
  --dir DIR        state directory (default $LOCKSTEP_DIR, else ~/.lockstep/default)

Logs of controller and nodes begin anew at 16 MiB; two older pieces are kept and shown first. Those of an installed
cluster are in the journal, for root and the groups adm and systemd-journal.

Examples
  lockstep logs controller --since 10m
  lockstep logs controller | grep job=12
  lockstep logs 12 -f
)help";

constexpr useconds_t kLookAgain = 200'000;

struct Options {
  std::string what, dir, since, rank;
  bool follow = false;
};

std::string stamp_text(const tm& local) {
  char stamp[32] = "";
  ::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &local);
  return stamp;
}

// Nothing: it is no date.
std::optional<std::string> stamp_of_date(const std::string& text) {
  for (const char* pattern : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
    tm date{};
    const char* const end = ::strptime(text.c_str(), pattern, &date);
    if (!end || *end)
      continue;
    const int day = date.tm_mday;
    tm real = date;
    real.tm_isdst = -1;
    if (::mktime(&real) != -1 && real.tm_mday == day)  // not the 31st of February
      return stamp_text(date);
  }
  return std::nullopt;
}

// "10m" -> the stamp of ten minutes ago; a date stays as it is. Stamps compare as text.
Result<std::string> since_stamp(const std::string& text) {
  const auto wrong = [&] { return invalid(format("--since {}: write 10m, 2h, 3d or 2026-03-01T12:00", text)); };
  if (text.empty())
    return text;
  if (text.size() > 4 && text[4] == '-') {
    const auto stamp = stamp_of_date(text);
    return stamp ? Result<std::string>(*stamp) : wrong();
  }
  static const std::map<char, std::int64_t> kUnits = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const auto unit = kUnits.find(text.back());
  const auto count = parse_uint(std::string_view(text).substr(0, text.size() - 1));
  if (unit == kUnits.end() || !count || *count > 1'000'000)
    return wrong();
  const time_t from = ::time(nullptr) - static_cast<time_t>(*count) * unit->second;
  tm local{};
  ::localtime_r(&from, &local);
  return stamp_text(local);
}

// Prints the lines that are asked for. A line without a time belongs to the one before.
class Printer {
 public:
  Printer(std::string since, std::string rank) : since_(std::move(since)), rank_(std::move(rank)) {}

  void take(std::string_view text) {
    pending_.append(text);
    std::size_t from = 0;
    for (std::size_t end; (end = pending_.find('\n', from)) != pending_.npos; from = end + 1)
      line(std::string_view(pending_).substr(from, end + 1 - from));
    pending_.erase(0, from);
    fflush(stdout);
  }
  void end() {
    if (!pending_.empty())
      line(std::exchange(pending_, {}) + "\n");
    fflush(stdout);
  }

 private:
  void line(std::string_view text) {
    if (const auto stamp = stamp_of(text); !stamp.empty())
      shown_ = stamp >= since_;
    const bool of_rank = rank_.empty() || trim(text.substr(0, text.find(':'))) == rank_;
    if ((shown_ || since_.empty()) && of_rank)
      fwrite(text.data(), 1, text.size(), stdout);
  }

  std::string since_, rank_, pending_;
  bool shown_ = false;
};

bool began_anew(int fd, off_t at) { return ::lseek(fd, 0, SEEK_END) < at; }

off_t print_from(int fd, off_t at, Printer& printer) {
  char chunk[64 << 10];
  for (ssize_t n; (n = ::pread(fd, chunk, sizeof chunk, at)) > 0; at += n)
    printer.take({chunk, static_cast<std::size_t>(n)});
  return at;
}

Result<void> print_log(const std::string& path, const Options& options) {
  Printer printer(TRY(since_stamp(options.since)), options.rank);
  const int fd = TRY(open_plain(path, O_RDONLY));
  for (const char* older : {".2", ".1"})
    if (const auto piece = open_plain(path + older, O_RDONLY)) {
      print_from(*piece, 0, printer);
      ::close(*piece);
    }
  off_t at = print_from(fd, 0, printer);
  while (options.follow) {
    ::usleep(kLookAgain);
    if (began_anew(fd, at)) {  // the rest of what it held lies beside it, at the same place
      if (const auto piece = open_plain(path + ".1", O_RDONLY)) {
        print_from(*piece, at, printer);
        ::close(*piece);
      }
      at = 0;
    }
    at = print_from(fd, at, printer);
  }
  printer.end();
  ::close(fd);
  return {};
}

// What a job's page tells, column by column: users choose names and paths, which must not be taken for anything else.
struct JobShown {
  std::string state, std_out, exit_code, reason, nodes;
  std::uint32_t uid = 0, gid = 0;
};

// Opened as its owner would: it may be a link, and root may read more than the user who made that.
Result<int> open_output(const JobShown& shown) {
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    ::setfsgid(shown.gid);
    ::setfsuid(shown.uid);
  }
  auto opened = open_plain(shown.std_out, O_RDONLY, 0, Links::kFollowed);
  if (is_root) {
    ::setfsuid(0);
    ::setfsgid(::getegid());
  }
  return opened;
}

Result<JobShown> show_job(const slurm::ClientContext& context, const std::string& job) {
  constexpr std::size_t kColumns = 8;
  const slurm::Rows rows(
      TRY(slurm::Query(context).get("/slurm/v1/squeue",
                                    {{"jobs", job},
                                     {"states", "all"},
                                     {"columns", "state,stdout,exitcode,reason,nodelist,batchflag,userid,groupid"}})),
      kColumns);
  if (rows.size() == 0)
    return not_found(format("there is no job {}", job));
  const auto cell = [&](std::size_t column) { return std::string(rows.cell(0, column)); };
  const auto uid = parse_uint(cell(6)), gid = parse_uint(cell(7));
  if (!uid || !gid)
    return invalid(format("job {} is shown without its user", job));
  JobShown shown{
      cell(0), cell(1), cell(2), cell(3), cell(4), static_cast<std::uint32_t>(*uid), static_cast<std::uint32_t>(*gid)};
  if (!shown.std_out.starts_with('/') && *uid != geteuid() && geteuid() != 0)
    return denied(format("job {} is another user's: its output is shown to that user and to administrators", job));
  if (cell(5) != "1" || !shown.std_out.starts_with('/'))
    return invalid(format("job {} has no script whose output lies in a file: its client shows it", job));
  return shown;
}

bool has_ended(const std::string& state) {
  constexpr std::string_view kFinal[] = {"COMPLETED", "FAILED",        "CANCELLED", "TIMEOUT",  "NODE_FAIL",
                                         "PREEMPTED", "OUT_OF_MEMORY", "DEADLINE",  "BOOT_FAIL"};
  return std::find(std::begin(kFinal), std::end(kFinal), state) != std::end(kFinal);
}

// How it ended, if it did not end well, and where to look.
void tell_end(const std::string& job, const JobShown& shown) {
  if (!has_ended(shown.state) || shown.state == "COMPLETED")
    return;
  fprintf(stderr, "lockstep: job %s ended %s, exit code %s, reason %s, on %s. More: lockstep explain %s; sacct -j %s\n",
          job.c_str(), shown.state.c_str(), shown.exit_code.c_str(), shown.reason.c_str(), shown.nodes.c_str(),
          job.c_str(), job.c_str());
}

Result<void> print_job(const slurm::ClientContext& context, const Options& options) {
  JobShown shown = TRY(show_job(context, options.what));
  Printer printer({}, options.rank);
  int fd = -1;
  off_t at = 0;
  for (;;) {
    const bool ended = has_ended(shown.state);
    if (auto opened = fd < 0 ? open_output(shown) : Result<int>(fd); opened)
      fd = *opened;
    else if (ended || opened.error().code != Errc::kNotFound)
      return tell_end(options.what, shown), opened.error();
    if (fd >= 0)
      at = print_from(fd, began_anew(fd, at) ? 0 : at, printer);
    if (!options.follow || ended)
      break;
    ::usleep(kLookAgain);
    shown = TRY(show_job(context, options.what));
  }
  printer.end();
  if (fd < 0)
    fprintf(stderr, "lockstep: job %s has written nothing yet\n", options.what.c_str());
  tell_end(options.what, shown);
  return {};
}

// "12", "12_3", "12_[3-5]", "12+1". A node may begin with a digit too.
bool names_job(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view rest = text.substr(digits);
  return digits > 0 && (rest.empty() || ((rest[0] == '_' || rest[0] == '+') &&
                                         rest.find_first_not_of("0123456789[]-,", 1) == rest.npos));
}

// What a service of an installed cluster logs: a file where it has one, else the journal.
Result<void> print_service(const std::string& file, const char* unit, const Options& options) {
  if (access(file.c_str(), F_OK) == 0)
    return print_log(file, options);
  Printer printer(TRY(since_stamp(options.since)), options.rank);
  const std::string command =
      format("journalctl --quiet --no-pager -o cat -n all {}-u {}", options.follow ? "-f " : "", unit);
  FILE* const journal = popen(command.c_str(), "re");
  if (!journal)
    return os_error("cannot run journalctl");
  char line[16 << 10];
  while (fgets(line, sizeof line, journal)) printer.take(line);
  printer.end();
  if (pclose(journal) == 0)
    return {};
  return Error{Errc::kIo,
               format("`{}` failed{}", command,
                      geteuid() == 0 ? "" : ": the journal is for root, and for the groups adm and systemd-journal"),
               {}};
}

Result<void> print_installed(const ClusterDir& dir, const Options& options) {
  const InstalledPaths at = installed_paths();
  const bool is_controller = dir.kind == ClusterDir::Kind::kController;
  if (options.what == "controller" && is_controller)
    return print_service(at.controller_dir + "/log/controller.log", kControllerUnit, options);
  const auto node = read_agent_file();
  if (is_installed_node() && options.what == (node ? node->node : host_name()))
    return print_service(at.node_dir + "/log", kAgentUnit, options);
  return not_found(format("{} is neither a job nor {}the node of this machine: the logs of others lie there",
                          options.what, is_controller ? "`controller`, nor " : ""));
}

Result<void> print(const slurm::ClientContext& context, const Options& options) {
  if (names_job(options.what))
    return print_job(context, options);
  const ClusterDir dir = cluster_dir(options.dir);
  if (dir.is_installed())
    return print_installed(dir, options);
  if (!dir.is_ours())
    return not_found(no_cluster_text(dir) + ": logs lie on the controller's machine");
  if (options.what == "controller")
    return print_log(dir.file("log/controller.log"), options);
  const std::string path = dir.node_dir(options.what) + "/log";
  if (options.what.find('/') != std::string::npos || access(path.c_str(), F_OK) != 0)
    return not_found(format("{} is neither `controller`, nor a job, nor a node of this machine whose log can be read",
                            options.what));
  return print_log(path, options);
}

}  // namespace

int logs_main(const slurm::ClientContext& context, int argc, char** argv) {
  static const option kOptions[] = {{"dir", 1, nullptr, 'd'},  {"follow", 0, nullptr, 'f'}, {"since", 1, nullptr, 's'},
                                    {"rank", 1, nullptr, 'r'}, {"help", 0, nullptr, 'h'},   {nullptr, 0, nullptr, 0}};
  Options options;
  VerbWords words({.verb = "logs", .options = kOptions, .letters = "fh", .words = 1, .instead = kDirInstead}, argc,
                  argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'd': options.dir = optarg; break;
      case 'f': options.follow = true; break;
      case 's': options.since = optarg; break;
      case 'r': options.rank = optarg; break;
      case 'h': fputs(kHelp, stdout); return 0;
      default: return 2;
    }
  const auto whose = words.rest();
  if (whose.empty() || whose[0].empty()) {
    fputs("lockstep logs: whose? Name `controller`, a node or a job.\nTry `lockstep logs --help`.\n", stderr);
    return 2;
  }
  options.what = whose[0];
  const auto done = print(context, options);
  if (done)
    return 0;
  fprintf(stderr, "lockstep logs: %s\n", done.error().message.c_str());
  return done.error().code == Errc::kInvalid ? 2 : 1;
}

}  // namespace lockstep
