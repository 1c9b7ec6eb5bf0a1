// `enroot`: lockstep-container, which lies beside this program on nodes, does it.
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <vector>

#include "base/text.h"
#include "cli/cli.h"
#include "frontends/slurm/client/say.h"

namespace lockstep {

int enroot_main(const slurm::ClientContext&, int argc, char** argv) {
  char self[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self);
  const std::string_view path(self, size > 0 ? static_cast<std::size_t>(size) : 0);
  std::string program = format("{}/lockstep-container", path.substr(0, path.rfind('/')));
  char verb[] = "enroot";
  std::vector<char*> words = {program.data(), verb};
  for (int i = 1; i < argc; ++i) words.push_back(argv[i]);
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  slurm::write_all(STDERR_FILENO, format("[ERROR] {}: {}: containers are on the nodes of jobs, whose package has it\n",
                                         program, ::strerror(errno)));
  return 1;
}

}  // namespace lockstep
