/* One rank of an MPI program, for mpi_test.py: says how large its world is, once it has exchanged something with all of
   it. Its argument says what one rank does wrong. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file_is_there(const char* path) { return access(path, F_OK) == 0; }

/* MPICH 4.0 over UCX and TCP hangs within MPI_Finalize now and then, with its own mpiexec, too (its pull request 6596):
   there a rank leaves its world by the launcher's protocol alone. */
static void leave(void) {
#ifdef MPICH_VERSION
  const char* fd = getenv("PMI_FD");
  const char* nodes = getenv("SLURM_STEP_NUM_NODES");
  if (fd && nodes && atoi(nodes) > 1) {
    char line[256];
    if (dprintf(atoi(fd), "cmd=barrier_in\n") < 0 || read(atoi(fd), line, sizeof line) <= 0 ||
        dprintf(atoi(fd), "cmd=finalize\n") < 0 || read(atoi(fd), line, sizeof line) <= 0)
      _exit(9);
    _exit(0);
  }
#endif
  MPI_Finalize();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* id = getenv("SLURM_PROCID");
  const int known = id ? atoi(id) : -1;
  if (!strcmp(what, "leave") && known == 1)
    return 5;
  if (!strcmp(what, "late") && known == 1)
    sleep(2);
  if (!strcmp(what, "wait") && known == 1)
    while (!file_is_there(argv[2])) usleep(10000);
  if (!strcmp(what, "wait")) {
    printf("here %d\n", known);
    fflush(stdout);
  }
  MPI_Init(&argc, &argv);
  int rank, size, sum = 0, got = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);  // all are past MPI_Init, which speaks for itself where another is gone
  if (rank == 1) {
    if (!strcmp(what, "abort"))
      MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(what, "die"))
      kill(getpid(), SIGKILL);
    if (!strcmp(what, "exit"))
      _exit(0);
  } else if (!strcmp(what, "abort") || !strcmp(what, "die") || !strcmp(what, "exit")) {
    pause();  // who talks to the one that is gone may be the first to say so
  }
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  MPI_Sendrecv(&rank, 1, MPI_INT, next, 7, &got, 1, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Comm node;
  int beside = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &beside);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  printf("rank %d of %d on %s beside %d sum %d from %d\n", rank, size, host, beside, sum, got);
  fflush(stdout);
  leave();
  return 0;
}
