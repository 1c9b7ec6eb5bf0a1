#include <getopt.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/local_cluster.h"
#include "io/local/state_dir.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep down [--dir DIR] [--delete]

Stops a cluster of this machine: its controller, its nodes and everything running on them, its bridge. Nothing stays
behind but the state directory, from which `lockstep up` starts it again; jobs that were running are requeued then.

  --dir DIR   state directory (default $LOCKSTEP_DIR, else ~/.lockstep/default)
  --delete    remove the state directory too: jobs, history and certificates are gone. Files in it that are not the
              cluster's stay
)help";

struct Stopped {
  std::string name;
  std::vector<std::string> kept;  // what --delete left, because it is not ours
};

Result<Stopped> stop(ClusterDir dir, bool remove) {
  StateDir state = TRY(find_state_dir(dir.root));
  dir.id = state.id;
  const auto lock = TRY(lock_cluster(dir));
  const ClusterConf conf = TRY(dir.load());
  TRY(stop_cluster(dir, conf));
  Stopped stopped{conf.name, {}};
  if (remove)
    stopped.kept = TRY(remove_state_dir(std::move(state)));
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
  if (!dir.exists()) {
    fprintf(stderr, "lockstep down: there is no cluster in %s\n", dir.root.c_str());
    return 1;
  }
  const auto done = stop(dir, remove);
  if (!done) {
    fprintf(stderr, "lockstep down: %s\n", done.error().message.c_str());
    return 1;
  }
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
