/* One rank that speaks PMI-2 by Slurm's client library, for mpi_test.py. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int spawned, size, rank, appnum, found, length;
  if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS)
    return 10;
  if (argc > 1 && !strcmp(argv[1], "abort") && rank == 1)
    PMI2_Abort(1, "enough");
  char job[256], key[64], value[1024], universe[1024] = "", mapping[1024] = "";
  if (PMI2_Job_GetId(job, sizeof job) != PMI2_SUCCESS)
    return 11;
  snprintf(key, sizeof key, "card %d", rank);
  snprintf(value, sizeof value, "a;b=%d;;c", rank); /* what the protocol itself is written with */
  if (PMI2_KVS_Put(key, value) != PMI2_SUCCESS)
    return 12;
  if (PMI2_KVS_Fence() != PMI2_SUCCESS)
    return 13;
  for (int other = 0; other < size; ++other) {
    char wanted[1024];
    snprintf(key, sizeof key, "card %d", other);
    snprintf(wanted, sizeof wanted, "a;b=%d;;c", other);
    if (PMI2_KVS_Get(job, other, key, value, sizeof value, &length) != PMI2_SUCCESS || strcmp(value, wanted) != 0)
      return 14;
  }
  const char* local = getenv("SLURM_LOCALID");
  if (local && !strcmp(local, "0")) {
    usleep(100000); /* the others wait for it */
    if (PMI2_Info_PutNodeAttr("leader", getenv("SLURMD_NODENAME")) != PMI2_SUCCESS)
      return 15;
  }
  char leader[1024] = "";
  if (PMI2_Info_GetNodeAttr("leader", leader, sizeof leader, &found, 1) != PMI2_SUCCESS || !found)
    return 16;
  if (PMI2_Info_GetNodeAttr("nobody", value, sizeof value, &found, 0) != PMI2_SUCCESS || found)
    return 17;
  if (PMI2_Info_GetJobAttr("universeSize", universe, sizeof universe, &found) != PMI2_SUCCESS || !found)
    return 18;
  if (PMI2_Info_GetJobAttr("PMI_process_mapping", mapping, sizeof mapping, &found) != PMI2_SUCCESS || !found)
    return 19;
  char port[256] = "";
  if (rank == 0 && PMI2_Nameserv_publish("service", NULL, "port 7") != PMI2_SUCCESS)
    return 20;
  if (PMI2_KVS_Fence() != PMI2_SUCCESS)
    return 21;
  if (PMI2_Nameserv_lookup("service", NULL, port, sizeof port) != PMI2_SUCCESS || strcmp(port, "port 7") != 0)
    return 22;
  printf("rank %d of %d, universe %s, mapping %s, leader %s\n", rank, size, universe, mapping, leader);
  fflush(stdout);
  return PMI2_Finalize() == PMI2_SUCCESS ? 0 : 23;
}
