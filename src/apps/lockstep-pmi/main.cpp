// lockstep-pmi: started by lockstep-shim for steps whose tasks find each other by PMI-1, PMI-2 or PMIx; see
// src/pmi/server/node_server.h. Not for people to run.
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

#include "pmi/control.h"
#include "pmi/server/node_server.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    std::puts("lockstep-pmi " LOCKSTEP_VERSION);
    return 0;
  }
  struct stat control {};
  if (argc != 2 || ::fstat(lockstep::kPmiControlFd, &control) != 0 || !S_ISSOCK(control.st_mode)) {
    std::fputs("lockstep-pmi is started by lockstep-shim, one for each step whose tasks find each other by PMI\n",
               stderr);
    return 2;
  }
  return lockstep::serve_pmi();
}
