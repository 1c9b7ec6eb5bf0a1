// `lockstep kubeconfig`: how kubectl and Kubernetes' other clients reach the cluster, as a file of theirs.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/cluster_dir.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/api.h"
#include "io/local/process.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep kubeconfig [--dir DIR] [FILE]

Prints a kubeconfig with which kubectl, Helm and other clients of Kubernetes speak to this cluster as you. It holds a
certificate of yours: whoever has it is you. With FILE it is written there, readable by you alone. --dir says which
cluster's directory; without it $LOCKSTEP_DIR, or the cluster that is installed here.

Examples
  lockstep kubeconfig ~/.kube/lockstep && export KUBECONFIG=~/.kube/lockstep
  kubectl get namespaces
)help";

Result<void> write_private(const std::string& path, const std::string& text) {
  if (const auto slash = path.rfind('/'); slash != path.npos && slash > 0)
    TRY(make_dirs(path.substr(0, slash), 0700));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    return os_error(format("cannot write {}", path));
  ::fchmod(fd, 0600);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      const Error error = os_error(format("cannot write {}", path));
      ::close(fd);
      return error;
    }
    done += static_cast<std::size_t>(n);
  }
  return ::close(fd) == 0 ? Result<void>{} : os_error(format("cannot write {}", path));
}

}  // namespace

int kubeconfig_main(const slurm::ClientContext& context, int argc, char** argv) {
  static const option kOptions[] = {{"dir", 1, nullptr, 'd'}, {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  slurm::ClientContext where = context;
  VerbWords words({.verb = "kubeconfig", .options = kOptions, .words = 1, .instead = "one file at a time"}, argc, argv);
  for (int c; (c = words.next()) != -1;) {
    if (c == 'd') {
      where.connect = [socket = cluster_dir(optarg).socket()] { return connect_and_tell(socket); };
      where.connect_now = {};
      continue;
    }
    if (c != 'h')
      return 2;
    fputs(kHelp, stdout);
    return 0;
  }
  slurm::Api cluster(where);
  const auto reply = cluster.call("GET", "/v1/kubeconfig");
  if (!reply.ok()) {
    fprintf(stderr, "lockstep kubeconfig: %s\n", reply.error().message.c_str());
    return 1;
  }
  const auto files = words.rest();
  if (files.empty()) {
    fwrite(reply->body.data(), 1, reply->body.size(), stdout);
    return fflush(stdout) == 0 ? 0 : 1;
  }
  if (const auto done = write_private(files[0], reply->body); !done.ok()) {
    fprintf(stderr, "lockstep kubeconfig: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace lockstep
