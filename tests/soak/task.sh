#!/bin/bash
# One rank of a job, or a batch script without steps: task.sh UNIT STEP CODE SECONDS LINES [gpus] [beats] [deaf]
# Prints LINES lines that the ledger knows byte by byte, stays for SECONDS and exits with CODE (129 to 159: by that signal).
code=$3 seconds=$4 lines=$5 words=" ${*:6} "
. "$SOAK/lib.sh" "$1" "$2"
[ "$step" = b ] && say S || say s
claim "$SOAK/live/$unit.$where" twice
if [[ $words == *" gpus "* ]]; then
  [ -n "${CUDA_VISIBLE_DEVICES:-}" ] || say X no-devices
  for device in ${CUDA_VISIBLE_DEVICES//,/ }; do claim "$SOAK/devices/$SLURMD_NODENAME.$device" shared; done
fi
[[ $words == *" deaf "* ]] && trap '' TERM
half=$((lines / 2))
for ((i = 0; i < half; i++)); do echo "$attempt $where $i $unit ${SOAK_FILLER:0:i % 61}"; done
if [[ $words == *" beats "* ]]; then
  for ((n = ${seconds%.*} * 4; n > 0; n--)); do say B; sleep 0.25; done
else
  sleep "$seconds"
fi
for ((; i < lines; i++)); do echo "$attempt $where $i $unit ${SOAK_FILLER:0:i % 61}"; done
[ "$step" = b ] && say E "$code" || say e "$code"
[ "$code" -lt 129 ] || [ "$code" -gt 159 ] || kill "-$((code - 128))" $$
exit "$code"
