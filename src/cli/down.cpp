#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/local_cluster.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep down [--dir DIR] [--delete]

Stops a cluster of this machine: its controller, its nodes and everything running on them, its bridge. Nothing stays
behind but the state directory, from which `lockstep up` starts it again; jobs that were running are requeued then.

  --dir DIR   state directory (default $LOCKSTEP_DIR, else ~/.lockstep/default)
  --delete    remove the state directory too: jobs, history and certificates are gone
)help";

Result<void> remove_tree(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT)
    return {};
  DIR* handle = opendir(path.c_str());
  if (!handle)
    return os_error("cannot remove " + path);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(handle))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      names.emplace_back(entry->d_name);
  closedir(handle);
  for (const auto& name : names) TRY(remove_tree(path + "/" + name));
  if (rmdir(path.c_str()) != 0)
    return os_error("cannot remove " + path);
  return {};
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
  const auto conf = dir.load();
  auto done = conf ? stop_cluster(dir, *conf) : Result<void>(conf.error());
  if (done && remove)
    done = remove_tree(dir.root);
  if (!done) {
    fprintf(stderr, "lockstep down: %s\n", done.error().message.c_str());
    return 1;
  }
  printf("cluster \"%s\" is down%s\n", conf->name.c_str(),
         remove ? ", its directory removed" : format("; `lockstep up --dir {}` starts it again", dir.root).c_str());
  return 0;
}

}  // namespace lockstep
