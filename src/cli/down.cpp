#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include <optional>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/local_cluster.h"
#include "io/local/folder.h"
#include "io/local/state_dir.h"
#include "io/local/survivors.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep down [--dir DIR] [--delete]

Stops a cluster of this machine: its controller, its nodes and everything running on them, its bridge. Nothing stays
behind but the state directory, from which `lockstep up` starts it again; jobs that were running are requeued then.

  --dir DIR   state directory (default $LOCKSTEP_DIR, else ~/.lockstep/default)
  --delete    remove the state directory too: jobs, history and certificates are gone. Files in it, and below its
              folders, that are not the cluster's stay and are named

It stops what runs whatever file of the directory is damaged, and says which.
)help";

struct Stopped {
  std::string name;
  std::vector<std::string> kept;     // what --delete left, because it is not ours
  std::vector<std::string> damaged;  // what could not be read, with what to do about it
};

struct Found {
  std::string id;
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
    return state.error();
  StateDir made = TRY(find_state_dir(root));
  std::string id = made.id;
  return Found{std::move(id), std::move(made), ""};
}

Result<Stopped> stop(ClusterDir dir, bool remove) {
  Found found = TRY(find(dir.root));
  dir.id = found.id;
  const auto lock = TRY(lock_cluster(dir));
  const auto conf = dir.load();
  Stopped stopped;
  stopped.name = conf ? conf->name : "unknown";
  if (!found.damage.empty())
    stopped.damaged.push_back(found.damage);
  if (!conf || !conf->damage.empty())
    stopped.damaged.push_back(conf ? conf->damage + "; its copy was used" : conf.error().message);
  TRY(stop_cluster(dir, conf ? &*conf : nullptr));
  if (remove && !found.state)
    return denied(format("it is stopped, but {} is not removed, since its mark cannot be read: {}. Remove it with rm",
                         dir.root, found.damage));
  if (remove)
    stopped.kept = TRY(remove_state_dir(std::move(*found.state)));
  return stopped;
}

}  // namespace

int down_main(int argc, char** argv) {
  static const option kOptions[] = {
      {"dir", 1, nullptr, 'd'}, {"delete", 0, nullptr, 'D'}, {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  std::string path;
  bool remove = false;
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) switch (c) {
      case 'd': path = optarg; break;
      case 'D': remove = true; break;
      case 'h': fputs(kHelp, stdout); return 0;
      default: fputs("Try `lockstep down --help`.\n", stderr); return 2;
    }
  const ClusterDir dir = cluster_dir(path);
  if (!dir.is_ours()) {
    fprintf(stderr, "lockstep down: there is no cluster in %s\n", dir.root.c_str());
    return 1;
  }
  const auto done = stop(dir, remove);
  if (!done) {
    fprintf(stderr, "lockstep down: %s\n", done.error().message.c_str());
    return 1;
  }
  if (!remove)
    for (const auto& what : done->damaged) fprintf(stderr, "lockstep down: %s\n", what.c_str());
  const char* name = done->name.c_str();
  if (!remove)
    printf("cluster \"%s\" is down; `lockstep up --dir %s` starts it again\n", name, dir.root.c_str());
  else if (done->kept.empty())
    printf("cluster \"%s\" is down, its directory removed\n", name);
  else
    printf("cluster \"%s\" is down, its files removed. What is not ours stays in %s: %s\n", name, dir.root.c_str(),
           join(done->kept, ", ").c_str());
  return 0;
}

}  // namespace lockstep
