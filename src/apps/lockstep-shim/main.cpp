// lockstep-shim: started by lockstep-agent in a step's folder; see src/shim/shim.h. Not for people to run.
#include <cstdio>
#include <cstring>

#include "shim/shim.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    std::puts("lockstep-shim " LOCKSTEP_VERSION);
    return 0;
  }
  if (argc > 1) {
    std::fputs("lockstep-shim is started by lockstep-agent, one for each step\n", stderr);
    return 2;
  }
  return lockstep::run_shim({});
}
