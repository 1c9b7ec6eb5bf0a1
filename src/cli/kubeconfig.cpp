// `lockstep kubeconfig`: how kubectl and Kubernetes' other clients reach the cluster, as a file of theirs.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/api.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep kubeconfig [FILE]

Prints a kubeconfig with which kubectl, Helm and other clients of Kubernetes speak to this cluster as you. It holds a
certificate of yours: whoever has it is you. With FILE it is written there, readable by you alone.

Examples
  lockstep kubeconfig ~/.kube/lockstep && export KUBECONFIG=~/.kube/lockstep
  kubectl get namespaces
)help";

Result<void> write_private(const std::string& path, const std::string& text) {
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
  static const option kOptions[] = {{"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  VerbWords words({.verb = "kubeconfig", .options = kOptions, .words = 1, .instead = "one file at a time"}, argc, argv);
  for (int c; (c = words.next()) != -1;) {
    if (c != 'h')
      return 2;
    fputs(kHelp, stdout);
    return 0;
  }
  slurm::Api cluster(context);
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
