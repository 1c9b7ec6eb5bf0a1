# Sourced by every job of the soak: writes down what really happened, and claims what nobody else may have.
#   . lib.sh UNIT STEP
# A line of the trace: what attempt step.rank node time job devices words
#   S s  batch script, rank begins      E e CODE  it is about to exit with CODE      B  it is alive      X  something is wrong
unit=$1 step=$2
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || unit=$unit.$SLURM_ARRAY_TASK_ID
attempt=${SLURM_RESTART_COUNT:-0}
where=$step.${SLURM_PROCID:-0}

say() {
  printf '%s\n' "$1 $attempt $where ${SLURMD_NODENAME:-here} $EPOCHREALTIME ${SLURM_JOB_ID:-0} ${CUDA_VISIBLE_DEVICES:--} ${2:--}" >> "$SOAK/trace/$unit"
}

# Holds the lock of FILE until the last process of this job that inherited it has ended: the kernel's word on who is alive.
claim() {
  local lock
  exec {lock}>> "$1"
  flock -w 2 "$lock" || say X "$2:$(basename "$1")"
}
