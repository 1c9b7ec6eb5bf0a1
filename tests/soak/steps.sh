#!/bin/bash
# A batch script, or the command of an salloc, with steps: steps.sh UNIT together|in-turn STEP… where STEP is "CODE SECONDS LINES WORDS -- OPTIONS OF SRUN".
# Exits with the highest code of its steps.
here=$SOAK way=$2
. "$SOAK/lib.sh" "$1" b
say S
claim "$SOAK/live/$unit.$where" twice
top=0 k=0 pids=()
ended() { [ "$1" -le "$top" ] || top=$1; }
for text in "${@:3}"; do
  read -r -a words <<< "${text%% -- *}"
  read -r -a options <<< "${text#* -- }"
  srun "${options[@]}" "$here/task.sh" "$1" "$k" "${words[@]}" &
  pids+=($!)
  k=$((k + 1))
  [ "$way" = together ] || { wait "${pids[-1]}"; ended $?; }
done
[ "$way" = in-turn ] || for pid in "${pids[@]}"; do wait "$pid"; ended $?; done
say E "$top"
exit "$top"
