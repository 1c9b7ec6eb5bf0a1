#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <optional>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/installed_cluster.h"
#include "cli/local_cluster.h"
#include "cli/verb_words.h"
#include "io/local/folder.h"
#include "io/local/node_init.h"
#include "io/local/state_dir.h"
#include "io/local/survivors.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep down [--dir DIR] [--delete]

Stops a cluster of this machine: its controller, its nodes and everything running on them, its bridge. Nothing stays
behind but the state directory, from which `lockstep up` starts it again; jobs that were running are requeued then.

  --dir DIR   state directory (default $LOCKSTEP_DIR, else ~/.lockstep/default)
  --delete    remove the state directory too: jobs, history and certificates are gone. Files in it, and below its
              folders, that are not the cluster's stay and are named. A directory that was there before `lockstep up`
              stays, empty

It stops what runs whatever file of the directory is damaged, or if all of it was removed, and says so.

Where Lockstep is installed and no directory is named, that cluster is meant: its services lockstepd and lockstep-agent
of this machine end, and what runs here, whose jobs are requeued; other machines go on with theirs. They start again with
`lockstep up`, and when the machine does. `systemctl stop lockstepd lockstep-agent` leaves jobs running instead.
)help";

struct Stopped {
  std::string name;
  Removed removed;                   // by --delete
  bool is_half_deleted = false;      // by an earlier one
  std::vector<std::string> damaged;  // what could not be read, with what to do about it
};

struct Found {
  std::string id;                 // "": the mark cannot be read, and nothing runs
  std::optional<StateDir> state;  // nullopt: its mark is lost
  std::string damage;
};

// The mark says which processes are ours. Where it is lost or damaged, those that run for this very directory still
// know.
Result<Found> find(const std::string& root) {
  (void)TRY(Folder::open(root));  // ours, and nobody can exchange it
  const bool is_marked = access((root + "/" + kMarkFile).c_str(), F_OK) == 0;
  auto state =
      is_marked ? find_state_dir(root) : Result<StateDir>(not_found(format("{}/{} is not there", root, kMarkFile)));
  if (state)
    return Found{state->id, std::move(*state), ""};
  if (std::string id = id_of_those_in(root); !id.empty())
    return Found{std::move(id), std::nullopt, state.error().message};
  if (is_marked)
    return Found{"", std::nullopt,
                 format("nothing runs for {0}, but its mark {0}/{1} cannot be read. Remove the mark (rm -r {0}/{1}): "
                        "the next `lockstep up` or `lockstep down` makes a new one. Jobs and history are not in it",
                        root, kMarkFile)};
  StateDir made = TRY(find_state_dir(root));
  std::string id = made.id;
  return Found{std::move(id), std::move(made), ""};
}

// The directory is gone, or nothing is left in it, and what was started from it runs on: it knows whose it is. No lock
// is needed, as nobody can start it again.
Result<void> stop_gone(ClusterDir dir, std::string id) {
  dir.id = std::move(id);
  TRY(stop_cluster(dir, nullptr));
  return end_shims_below(dir.root + "/nodes/");
}

void add_damage(std::vector<std::string>& damaged, const Result<ClusterConf>& conf) {
  if (!conf)
    damaged.push_back(conf.error().message);
  else if (!conf->damage.empty())
    damaged.push_back(conf->damage + "; its copy was used");
}

Result<Stopped> stop(ClusterDir dir, bool remove) {
  Found found = TRY(find(dir.root));
  if (found.id.empty() && remove)
    return denied("nothing was deleted: " + found.damage);
  dir.id = found.id;
  const auto lock = TRY(lock_cluster(dir, found.state.has_value()));
  const auto conf = dir.load();
  Stopped stopped;
  stopped.name = conf ? conf->name : "unknown";
  if (!found.damage.empty())
    stopped.damaged.push_back(found.damage);
  if (found.id.empty())
    return stopped;
  if (dir.is_ours())
    add_damage(stopped.damaged, conf);
  TRY(stop_cluster(dir, conf ? &*conf : nullptr));
  if (remove && !found.state)
    return denied(format("it is stopped, but {} is not removed, since its mark cannot be read: {}. Remove it with rm",
                         dir.root, found.damage));
  stopped.is_half_deleted = !remove && found.state && is_half_deleted(found.state->folder);
  if (remove)
    stopped.removed = TRY(remove_state_dir(std::move(*found.state)));
  return stopped;
}

int down_without_directory(const ClusterDir& dir, bool remove) {
  std::string id = id_of_those_in(dir.root);
  const auto begun = remove && id.empty() ? remove_begun_claim(dir.root) : Result<bool>(false);
  if (!begun && begun.error().code != Errc::kNotFound && begun.error().code != Errc::kDenied) {
    fprintf(stderr, "lockstep down: %s\n", begun.error().message.c_str());
    return 1;
  }
  if (begun && *begun) {
    printf("what a `lockstep up` left in %s that was interrupted as it began is removed\n", dir.root.c_str());
    return 0;
  }
  if (id.empty()) {
    fprintf(stderr, "lockstep down: %s\n", no_cluster_text(dir).c_str());
    return 1;
  }
  if (const auto stopped = stop_gone(dir, std::move(id)); !stopped) {
    fprintf(stderr, "lockstep down: %s\n", stopped.error().message.c_str());
    return 1;
  }
  printf("what ran for %s is down; the directory itself was removed before\n", dir.root.c_str());
  return 0;
}

int down_installed(const ClusterDir& dir, bool remove) {
  const auto done =
      dir.kind == ClusterDir::Kind::kNode
          ? denied(
                "this machine is a node of a cluster whose controller is elsewhere: `lockstep node leave` "
                "takes it out of that")
      : remove ? denied(
                     "the cluster of this machine is installed, and its packages own it: `apt purge "
                     "lockstep-controller lockstep-agent` removes it with jobs, history and certificates")
               : take_down_installed();
  if (!done) {
    fprintf(stderr, "lockstep down: %s\n", done.error().message.c_str());
    return 1;
  }
  puts(
      "the cluster that is installed on this machine is down; `lockstep up` starts it again, and so does the next "
      "start "
      "of the machine");
  return 0;
}

}  // namespace

int down_main(int argc, char** argv) {
  static const option kOptions[] = {
      {"dir", 1, nullptr, 'd'}, {"delete", 0, nullptr, 'D'}, {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  signal(SIGPIPE, SIG_IGN);  // who reads what we say may go away: it goes down all the same
  std::string path;
  bool remove = false;
  VerbWords words({.verb = "down", .options = kOptions, .instead = kDirInstead}, argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'd': path = optarg; break;
      case 'D': remove = true; break;
      case 'h': fputs(kHelp, stdout); return 0;
      default: return 2;
    }
  const ClusterDir dir = cluster_dir(path);
  if (dir.is_installed())
    return down_installed(dir, remove);
  const bool is_marked = access(dir.file(kMarkFile).c_str(), F_OK) == 0;  // alone: an `up` was killed as it began
  if (!dir.is_ours() && !is_marked)
    return down_without_directory(dir, remove);
  const auto done = stop(dir, remove);
  if (!done) {
    fprintf(stderr, "lockstep down: %s\n", done.error().message.c_str());
    return 1;
  }
  if (!remove)
    for (const auto& what : done->damaged) fprintf(stderr, "lockstep down: %s\n", what.c_str());
  const char* name = done->name.c_str();
  if (done->is_half_deleted)
    printf("nothing runs; %s\n", half_deleted_text(dir.root).c_str());
  else if (!remove)
    printf("cluster \"%s\" is down; `lockstep up --dir %s` starts it again\n", name, dir.root.c_str());
  else if (!done->removed.kept.empty())
    printf("cluster \"%s\" is down, its files removed. What is not ours stays in %s: %s\n", name, dir.root.c_str(),
           join(done->removed.kept, ", ").c_str());
  else if (done->removed.directory_stays)
    printf("cluster \"%s\" is down, its files removed. %s itself was there before and stays\n", name, dir.root.c_str());
  else
    printf("cluster \"%s\" is down, its directory removed\n", name);
  return 0;
}

}  // namespace lockstep
