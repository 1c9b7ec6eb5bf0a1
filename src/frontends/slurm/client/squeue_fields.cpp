// squeue's fields: letters of -o, names of -O, headers, and what the cluster calls the column.
#include "frontends/slurm/client/squeue_fields.h"

#include <array>

namespace lockstep::slurm {

namespace {

using enum FieldKind;

constexpr FieldDef kJobFields[] = {
    {'a', "account", "ACCOUNT", "account"},
    {0, "accruetime", "ACCRUE_TIME", "accruetime", kTime},
    {'F', "arrayjobid", "ARRAY_JOB_ID", "arrayjobid", kNumber},
    {'K', "arraytaskid", "ARRAY_TASK_ID", "arraytaskid"},
    {0, "batchflag", "BATCH_FLAG", "batchflag", kNumber},
    {'B', "batchhost", "EXEC_HOST", "batchhost"},
    {0, "cluster", "CLUSTER", "cluster"},
    {'o', "command", "COMMAND", "command"},
    {'k', "comment", "COMMENT", "comment"},
    {'O', "contiguous", "CONTIGUOUS", "contiguous", kNumber},
    {'I', "cores", "CORES_PER_SOCKET", "cores"},
    {'X', "corespec", "CORE_SPEC", "corespec"},
    {0, "cpuspertask", "CPUS_PER_TASK", "cpuspertask", kNumber},
    {0, "deadline", "DEADLINE", "deadline", kTime},
    {'E', "dependency", "DEPENDENCY", "dependency"},
    {0, "derivedec", "DERIVED_EXIT_CODE", "derivedec"},
    {0, "eligibletime", "ELIGIBLE_TIME", "eligibletime", kTime},
    {'e', "endtime", "END_TIME", "endtime", kTime},
    {'x', "excnodes", "EXC_NODES", "excnodes"},
    {0, "exitcode", "EXIT_CODE", "exitcode"},
    {'f', "feature", "FEATURES", "feature"},
    {'G', "groupid", "GROUP", "groupid", kNumber},
    {'g', "groupname", "GROUP", "groupid"},
    {0, "hetjobid", "HET_JOB_ID", "hetjobid"},
    {0, "hetjoboffset", "HET_JOB_OFFSET", "hetjoboffset"},
    {'i', "jobarrayid", "JOBID", "jobarrayid"},
    {'A', "jobid", "JOBID", "jobid", kNumber},
    {'W', "licenses", "LICENSES", "licenses"},
    {0, "maxcpus", "MAX_CPUS", "maxcpus", kNumber},
    {0, "maxnodes", "MAX_NODES", "maxnodes", kNumber},
    {0, "mcslabel", "MCSLABEL", "mcslabel"},
    {'c', "mincpus", "MIN_CPUS", "mincpus", kNumber},
    {'m', "minmemory", "MIN_MEMORY", "minmemory"},
    {0, "mintime", "MIN_TIME", "mintime", kLimit},
    {'d', "mintmpdisk", "MIN_TMP_DISK", "mintmpdisk", kNumber},
    {'j', "name", "NAME", "name"},
    {'y', "nice", "NICE", "nice", kNumber},
    {'N', "nodelist", "NODELIST", "nodelist"},
    {0, "nodes", "NODELIST", "nodelist"},
    {0, "ntpernode", "TASKS_PER_NODE", "ntpernode"},
    {'C', "numcpus", "CPUS", "numcpus", kNumber},
    {'D', "numnodes", "NODES", "numnodes", kNumber},
    {0, "numtasks", "TASKS", "numtasks", kNumber},
    {'h', "oversubscribe", "OVER_SUBSCRIBE", "oversubscribe"},
    {'P', "partition", "PARTITION", "partition"},
    {'p', "priority", "PRIORITY", "priority"},
    {'Q', "prioritylong", "PRIORITY", "prioritylong", kNumber},
    {'q', "qos", "QOS", "qos"},
    {'r', "reason", "REASON", "reason"},
    {'R', "reasonlist", "NODELIST(REASON)", "reasonlist"},
    {0, "reboot", "REBOOT", "reboot", kNumber},
    {'n', "reqnodes", "REQ_NODES", "reqnodes"},
    {0, "reqswitch", "REQ_SWITCH", "reqswitch", kNumber},
    {0, "requeue", "REQUEUE", "requeue", kNumber},
    {'v', "reservation", "RESERVATION", "reservation"},
    {0, "restartcnt", "RESTART_COUNT", "restartcnt", kNumber},
    {'Y', "schednodes", "SCHEDNODES", "schednodes"},
    {'z', "sct", "S:C:T", "sct"},
    {'H', "sockets", "SOCKETS_PER_NODE", "sockets"},
    {'S', "starttime", "START_TIME", "starttime", kTime},
    {'T', "state", "STATE", "state"},
    {'t', "statecompact", "ST", "statecompact"},
    {0, "stderr", "STDERR", "stderr"},
    {0, "stdin", "STDIN", "stdin"},
    {0, "stdout", "STDOUT", "stdout"},
    {'V', "submittime", "SUBMIT_TIME", "submittime", kTime},
    {'J', "threads", "THREADS_PER_CORE", "threads"},
    {'L', "timeleft", "TIME_LEFT", "timeleft", kLimit},
    {'l', "timelimit", "TIME_LIMIT", "timelimit", kLimit},
    {'M', "timeused", "TIME", "timeused", kSpan},
    {0, "tresalloc", "TRES_ALLOC", "tresalloc"},
    {'b', "trespernode", "TRES_PER_NODE", "trespernode"},
    {'U', "userid", "UID", "userid", kNumber},
    {'u', "username", "USER", "username"},
    {'w', "wckey", "WCKEY", "wckey"},
    {'Z', "workdir", "WORK_DIR", "workdir"},
};

constexpr FieldDef kStepFields[] = {
    {'i', "stepid", "STEPID", "stepid"},
    {'j', "stepname", "NAME", "name"},
    {'P', "partition", "PARTITION", "partition"},
    {'u', "username", "USER", "username"},
    {'U', "userid", "UID", "userid", kNumber},
    {'M', "timeused", "TIME", "timeused", kSpan},
    {'S', "starttime", "START_TIME", "starttime", kTime},
    {'N', "nodelist", "NODELIST", "nodelist"},
    {'A', "numtasks", "TASKS", "numtasks", kNumber},
    {'F', "arrayjobid", "ARRAY_JOB_ID", "arrayjobid", kNumber},
    {0, "jobid", "JOBID", "arrayjobid", kNumber},
    {0, "steps", "STEPID", "stepid"},
    {0, "nodes", "NODELIST", "nodelist"},
};

}  // namespace

std::span<const FieldDef> squeue_job_fields() { return kJobFields; }
std::span<const FieldDef> squeue_step_fields() { return kStepFields; }

Result<std::vector<SortKey>> squeue_sort_keys(std::string_view text, std::span<const FieldDef> fields, TableAsk& ask) {
  std::vector<SortKey> keys;
  bool descending = false;
  for (const char c : text) {
    if (c == ',' || c == ' ')
      continue;
    if (c == '-' || c == '+') {
      descending = c == '-';
      continue;
    }
    SortKey key;
    key.descending = descending;
    descending = false;
    if (c == 'i') {  // an array's elements stay together
      key.cell = ask.add("idorder");
    } else if (c == 't' || c == 'T') {
      key.cell = ask.add("stateorder");
      key.numeric = true;
    } else if (c == 'p') {  // the same order as the rounded text
      key.cell = ask.add("prioritylong");
      key.numeric = true;
    } else {
      const FieldDef* found = nullptr;
      for (const FieldDef& field : fields)
        if (field.letter == c)
          found = &field;
      if (!found)
        return invalid(std::string("Invalid sort specification: ") + c, "sort");
      key.cell = ask.add(found->column);
      key.numeric = found->kind != kText;
    }
    keys.push_back(key);
  }
  return keys;
}

}  // namespace lockstep::slurm
