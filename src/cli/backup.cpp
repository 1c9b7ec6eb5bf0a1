// `lockstep backup` and `lockstep restore`. The work is lockstepd's, which has SQLite and digests; here is what a
// person types, and what concerns the cluster around the state: its settings, and who may be put to work.
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/installed.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/installed_conf.h"
#include "cli/local_cluster.h"
#include "cli/units.h"
#include "cli/verb_words.h"
#include "io/local/backup_note.h"
#include "io/local/folder.h"
#include "io/local/state_dir.h"

extern char** environ;

namespace lockstep {

namespace {

constexpr const char* kBackupHelp =
    R"help(Usage: lockstep backup DIR [--dir CLUSTER] [--keep N] [--rate MIB] [-o table|json]

Writes what a cluster is at this moment to DIR, a new or an empty directory: its log with all jobs, scripts and
settings, accounting, the CA and its key. The cluster may run, and goes on meanwhile. What was written is read back and
checked. DIR is closed to other users: whoever has the CA's key can be any node.

  --dir CLUSTER   the cluster's state directory (default: as for every other command)
  --keep N        make a dated directory below DIR, and remove those of this cluster that are older than the newest N
  --rate MIB      write no more than MIB mebibytes a second
  -o json         say what was made as JSON

Exit codes: 0 the backup is whole; 1 there is none, and why; 2 usage. Run it where the controller runs, as root or as
the user whose cluster it is.

Examples
  lockstep backup /srv/backups/before-upgrade
  lockstep backup --keep 14 /srv/backups/lockstep        # from a timer, every night
)help";

constexpr const char* kRestoreHelp =
    R"help(Usage: lockstep restore BACKUP --dir NEW [--replace] [--take-over] [-o table|json]
       lockstep restore --take-over [--dir DIR]

Puts a backup into NEW, a new or an empty directory, after every file of it was checked. The restored cluster is quiet:
`lockstep up --dir NEW` shows what was, and nothing is changed, no job starts and no node is taken until it is taken
over. So it can be looked at beside the original, whose jobs do not run a second time.

  --dir NEW     where to. The controller's own directory of an installed cluster: /var/lib/lockstep/controller
  --replace     NEW holds a cluster, which does not run: what is exchanged stays beside it (lockstep.db.replaced-DATE).
                Accounting is kept where it is the same cluster's (the same CA)
  --take-over   put the restored cluster to work. The original must not run any more
  -o json       say what was restored as JSON

Exit codes: 0 done; 1 it was not, and why; 2 usage.

Examples
  lockstep restore /srv/backups/before-upgrade --dir /tmp/look && lockstep up --dir /tmp/look
  lockstep restore --take-over --dir /tmp/look
  systemctl stop lockstepd
  lockstep restore /srv/backups/lockstep/20260301-020000 --dir /var/lib/lockstep/controller --replace --take-over
)help";

// Our own standard streams; its exit code, 1 where it could not be run or was killed.
int run_daemon(const std::vector<std::string>& words, const char* verb) {
  const std::string program = program_dir() + "/lockstepd";
  if (access(program.c_str(), X_OK) != 0) {
    fprintf(stderr, "lockstep %s: %s is missing: run it on the machine where the controller is installed\n", verb,
            program.c_str());
    return 1;
  }
  std::vector<std::string> texts{program};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (auto& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  fflush(stdout);
  pid_t pid = 0;
  if (const int error = posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv.data(), environ); error != 0) {
    fprintf(stderr, "lockstep %s: cannot run %s: %s\n", verb, program.c_str(), strerror(error));
    return 1;
  }
  signal(SIGINT, SIG_IGN);  // it gets the same, and removes what it made
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return 1;
  signal(SIGINT, SIG_DFL);
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  fprintf(stderr, "lockstep %s: it was killed (signal %d); what it left is marked as unfinished\n", verb,
          WTERMSIG(status));
  return 1;
}

int wrong_usage(const char* verb, const std::string& what) {
  fprintf(stderr, "lockstep %s: %s; see lockstep %s --help\n", verb, what.c_str(), verb);
  return 2;
}

bool is_count(const std::string& text) {
  const auto number = parse_uint(text);
  return number && *number > 0 && *number <= 10'000;
}

struct Asked {
  std::string dir, keep, rate, output = "table";
  bool replace = false, take_over = false;
};

std::string name_of(const ClusterDir& dir) {
  if (dir.is_installed()) {
    const auto conf = read_installed_conf();
    const std::string name = conf ? setting_in(*conf, "CLUSTER_NAME") : "";
    return name.empty() ? "lockstep" : name;
  }
  const auto conf = dir.load();
  return conf ? conf->name : "lockstep";
}

int backup(const Asked& asked, const std::string& target) {
  const ClusterDir dir = cluster_dir(asked.dir);
  std::vector<std::string> words{"--backup", target, "--dir", dir.root, "--cluster-name", name_of(dir)};
  if (dir.is_installed())
    words.insert(words.end(), {"--settings", installed_paths().settings_dir});
  if (!asked.keep.empty())
    words.insert(words.end(), {"--keep", asked.keep});
  if (!asked.rate.empty())
    words.insert(words.end(), {"--rate", asked.rate});
  if (asked.output == "json")
    words.push_back("--json");
  return run_daemon(words, "backup");
}

// The wanted one where nobody listens on it, else any.
Result<std::uint16_t> port_like(std::uint16_t wanted) {
  for (const std::uint16_t port : {wanted, std::uint16_t{0}}) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const bool is_free = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                         getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    if (fd >= 0)
      close(fd);
    if (is_free)
      return ntohs(address.sin_port);
  }
  return os_error("no free port on 127.0.0.1");
}

// A cluster that lives in its directory has its settings there. Beside the original it listens elsewhere; virtual nodes
// get a network of their own when it starts.
Result<void> settle_settings(const ClusterDir& dir) {
  const std::string& root = dir.root;
  struct stat found {};
  if (dir.is_installed() || stat(root.c_str(), &found) != 0 || found.st_uid != geteuid())
    return {};  // another user's: it has the settings of the backup
  const auto note = TRY(read_restore_note(root));
  ClusterConf conf;
  if (dir.exists())
    conf = TRY(dir.load());
  else if (note)
    conf.name = note->of.cluster;
  if (!conf.has_bridge()) {
    const std::uint16_t port = TRY(port_like(conf.port));
    if (conf.port != 0 && port != conf.port)
      fprintf(stderr, "port %u of the original is taken here: this one listens on %u\n", conf.port, port);
    conf.port = port;
  }
  return dir.save(conf);
}

// Two of one cluster would run the same jobs. What runs elsewhere cannot be seen from here.
Result<void> check_original(const RestoreNote& note, const std::string& root) {
  const std::string& from = note.of.from;
  if (from.empty() || from == root || note.of.mark.empty() || mark_in(from) != note.of.mark)
    return {};
  if (const std::string who = user_of(from); !who.empty())
    return conflict(
        format("the cluster that this is a backup of runs in {0} ({1}), and both would run the same jobs. "
               "Stop it first: lockstep down --dir {0}",
               from, who));
  return {};
}

int call(int (*verb)(int, char**), std::vector<std::string> words) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return verb(static_cast<int>(words.size()), argv.data());
}

Result<int> take_over(const ClusterDir& dir) {
  const std::string& root = dir.root;
  const auto note = TRY(read_restore_note(root));
  if (!note)
    return conflict(format("{} holds no cluster that was restored and waits to be taken over", root));
  if (!note->is_whole)
    return conflict(half_restored_text(root));
  TRY(check_original(*note, root));
  const std::string path = root + "/" + kRestoreNote;
  if (dir.is_installed()) {
    if (unlink(path.c_str()) != 0)
      return os_error("cannot remove " + path);
    TRY(restart_unit(kControllerUnit));
    printf("the restored cluster works; see: lockstep status\n");
    return 0;
  }
  if (!user_of(root).empty())  // it is being looked at
    if (const int failed = call(down_main, {"down", "--dir", root}); failed != 0)
      return failed;
  if (unlink(path.c_str()) != 0)
    return os_error("cannot remove " + path);
  return call(up_main, {"up", "--dir", root});
}

int take_over_and_tell(const ClusterDir& dir) {
  const auto done = take_over(dir);
  if (done)
    return *done;
  fprintf(stderr, "lockstep restore: %s\n", done.error().message.c_str());
  return 1;
}

int restore(const Asked& asked, const std::string& source) {
  const ClusterDir dir = cluster_dir(asked.dir);
  const std::string& root = dir.root;
  std::vector<std::string> words{"--restore", source, "--dir", root};
  if (asked.replace)
    words.push_back("--replace");
  if (asked.output == "json")
    words.push_back("--json");
  if (const int failed = run_daemon(words, "restore"); failed != 0)
    return failed;
  if (const auto settled = settle_settings(dir); !settled) {
    fprintf(stderr, "lockstep restore: %s\n", settled.error().message.c_str());
    return 1;
  }
  if (asked.take_over)
    return take_over_and_tell(dir);
  if (asked.output != "json" && dir.is_installed())
    printf(
        "it is quiet: `systemctl start lockstepd` shows it, `lockstep restore --take-over --dir %s` puts it to work\n",
        root.c_str());
  else if (asked.output != "json")
    printf("it is quiet: `lockstep up --dir %s` shows it, `lockstep restore --take-over --dir %s` puts it to work\n",
           root.c_str(), root.c_str());
  return 0;
}

constexpr option kOptions[] = {
    {"dir", 1, nullptr, 'd'},     {"keep", 1, nullptr, 'k'},      {"rate", 1, nullptr, 'r'},
    {"replace", 0, nullptr, 'p'}, {"take-over", 0, nullptr, 't'}, {"output", 1, nullptr, 'o'},
    {"json", 0, nullptr, 'j'},    {"help", 0, nullptr, 'h'},      {nullptr, 0, nullptr, 0}};
constexpr option kBackupOptions[] = {kOptions[0], kOptions[1], kOptions[2], kOptions[5],
                                     kOptions[6], kOptions[7], kOptions[8]};
constexpr option kRestoreOptions[] = {kOptions[0], kOptions[3], kOptions[4], kOptions[5],
                                      kOptions[6], kOptions[7], kOptions[8]};

// An exit code where the verb is through.
std::optional<int> read_options(VerbWords& words, Asked& asked, const char* help) {
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'd': asked.dir = optarg; break;
      case 'k': asked.keep = optarg; break;
      case 'r': asked.rate = optarg; break;
      case 'p': asked.replace = true; break;
      case 't': asked.take_over = true; break;
      case 'o': asked.output = optarg; break;
      case 'j': asked.output = "json"; break;
      case 'h': fputs(help, stdout); return 0;
      default: return 2;
    }
  return std::nullopt;
}

}  // namespace

int backup_main(int argc, char** argv) {
  Asked asked;
  VerbWords words({.verb = "backup", .options = kBackupOptions, .letters = "o:h", .words = 1}, argc, argv);
  if (const auto done = read_options(words, asked, kBackupHelp))
    return *done;
  const auto rest = words.rest();
  if (rest.empty() || rest[0].empty())
    return wrong_usage("backup", "where to? Name a new or an empty directory");
  if (asked.output != "table" && asked.output != "json")
    return wrong_usage("backup", format("-o {}: write table or json", asked.output));
  for (const auto& [name, value] : {std::pair("--keep", asked.keep), std::pair("--rate", asked.rate)})
    if (!value.empty() && !is_count(value))
      return wrong_usage("backup", format("{} {}: a number from 1 to 10000 is meant", name, value));
  return backup(asked, absolute_path(rest[0]));
}

int restore_main(int argc, char** argv) {
  Asked asked;
  VerbWords words({.verb = "restore", .options = kRestoreOptions, .letters = "o:h", .words = 1, .instead = kDirInstead},
                  argc, argv);
  if (const auto done = read_options(words, asked, kRestoreHelp))
    return *done;
  const auto rest = words.rest();
  if (asked.output != "table" && asked.output != "json")
    return wrong_usage("restore", format("-o {}: write table or json", asked.output));
  if (rest.empty() && asked.take_over && !asked.replace)
    return take_over_and_tell(cluster_dir(asked.dir));
  if (rest.empty() || rest[0].empty())
    return wrong_usage("restore", "which backup? Name its directory");
  if (asked.dir.empty())
    return wrong_usage("restore", "where to? Say --dir NEW, a new or an empty directory");
  return restore(asked, absolute_path(rest[0]));
}

}  // namespace lockstep
