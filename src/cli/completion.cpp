#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

namespace lockstep {

namespace {

// Options are read from each command's own --help, so they cannot fall behind it.
constexpr const char* kBash =
    R"help(# bash completion for lockstep and its Slurm commands:  eval "$(lockstep completion bash)"
_lockstep() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=$1 verbs
  verbs="up down status env node topology submit run alloc jobs nodes cancel show history checkpoint explain whatif completion help version"
  if [[ $command == */lockstep || $command == lockstep ]]; then
    if [ "$COMP_CWORD" -eq 1 ]; then
      COMPREPLY=($(compgen -W "$verbs" -- "$word"))
      return
    fi
    command="$command ${COMP_WORDS[1]}"
  fi
  case $before in
    -p | --partition) COMPREPLY=($(compgen -W "$(sinfo -h -o %R 2> /dev/null)" -- "$word")); return ;;
    -w | --nodelist | -x | --exclude) COMPREPLY=($(compgen -W "$(sinfo -h -N -o %N 2> /dev/null)" -- "$word")); return ;;
    -j | --jobs | --jobid) COMPREPLY=($(compgen -W "$(squeue -h -o %i 2> /dev/null)" -- "$word")); return ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$($command --help 2> /dev/null | grep -oE -- '--[a-z][a-z0-9-]+' | sort -u)" -- "$word"))
    return
  fi
  case $command in
    *scancel | *cancel | *explain) COMPREPLY=($(compgen -W "$(squeue -h -o %i 2> /dev/null)" -- "$word")) ;;
    *scontrol)
      if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "show update hold release requeue requeuehold suspend resume ping create delete wait_job write" -- "$word"))
      elif [ "$before" = show ]; then
        COMPREPLY=($(compgen -W "job node partition step config topology hostnames hostlist" -- "$word"))
      else
        COMPREPLY=($(compgen -W "$(squeue -h -o %i 2> /dev/null)" -- "$word"))
      fi ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}
complete -F _lockstep lockstep sbatch srun salloc squeue sinfo scancel scontrol sacct sacctmgr sshare sprio
)help";

}  // namespace

int completion_main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "bash") == 0) {
    fputs(kBash, stdout);
    return 0;
  }
  fputs("Usage: lockstep completion bash\n\nFor this shell:  eval \"$(lockstep completion bash)\"\n",
        argc < 2 ? stderr : stdout);
  return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
}

}  // namespace lockstep
