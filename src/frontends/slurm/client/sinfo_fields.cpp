#include "frontends/slurm/client/sinfo_fields.h"

namespace lockstep::slurm {

namespace {

using enum FieldKind;

constexpr FieldDef kFields[] = {
    {0, "all", "ALL", "nodelist"},
    {0, "allocmem", "ALLOCMEM", "allocmem", kNumber},
    {'S', "allocnodes", "ALLOCNODES", "allocnodes"},
    {'a', "available", "AVAIL", "available"},
    {'V', "cluster", "CLUSTER", "cluster"},
    {0, "comment", "COMMENT", "comment"},
    {'Y', "cores", "CORES", "cores"},
    {'c', "cpus", "CPUS", "cpus"},
    {'O', "cpusload", "CPU_LOAD", "cpusload"},
    {'C', "cpusstate", "CPUS(A/I/O/T)", "cpusstate"},
    {'L', "defaulttime", "DEFAULTTIME", "defaulttime", kLimit},
    {'d', "disk", "TMP_DISK", "disk"},
    {'f', "features", "AVAIL_FEATURES", "features"},
    {'b', "featuresact", "ACTIVE_FEATURES", "features"},
    {'e', "freemem", "FREE_MEM", "freemem"},
    {'G', "gres", "GRES", "gres"},
    {0, "gresused", "GRES_USED", "gresused"},
    {'g', "groups", "GROUPS", "groups"},
    {'B', "maxcpuspernode", "MAX_CPUS_PER_NODE", "maxcpuspernode"},
    {'m', "memory", "MEMORY", "memory"},
    {'o', "nodeaddr", "NODE_ADDR", "nodeaddr"},
    {'A', "nodeai", "NODES(A/I)", "nodeai"},
    {'F', "nodeaiot", "NODES(A/I/O/T)", "nodeaiot"},
    {'n', "nodehost", "HOSTNAMES", "nodehost"},
    {'N', "nodelist", "NODELIST", "nodelist"},
    {'D', "nodes", "NODES", "nodes", kNumber},
    {'h', "oversubscribe", "OVERSUBSCRIBE", "oversubscribe"},
    {'P', "partition", "PARTITION", "partition"},
    {'R', "partitionname", "PARTITION", "partitionname"},
    {'M', "preemptmode", "PREEMPT_MODE", "preemptmode"},
    {'I', "priorityjobfactor", "PRIO_JOB_FACTOR", "priorityjobfactor", kNumber},
    {'p', "prioritytier", "PRIO_TIER", "prioritytier", kNumber},
    {'E', "reason", "REASON", "reason"},
    {'i', "reservation", "RESERVATION", "reservation"},
    {'r', "root", "ROOT", "root"},
    {'s', "size", "JOB_SIZE", "size"},
    {'z', "socketcorethread", "S:C:T", "socketcorethread"},
    {'X', "sockets", "SOCKETS", "sockets"},
    {'t', "statecompact", "STATE", "statecompact"},
    {0, "statecomplete", "STATECOMPLETE", "statecomplete"},
    {'T', "statelong", "STATE", "statelong"},
    {'Z', "threads", "THREADS", "threads"},
    {'l', "time", "TIMELIMIT", "time", kLimit},
    {'H', "timestamp", "TIMESTAMP", "timestamp", kTime},
    {'u', "user", "USER", "user"},
    {'U', "userlong", "USER", "user"},
    {'v', "version", "VERSION", "version"},
    {'w', "weight", "WEIGHT", "weight"},
};

}  // namespace

std::span<const FieldDef> sinfo_fields() { return kFields; }

}  // namespace lockstep::slurm
