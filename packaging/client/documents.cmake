# Manual pages and completion, written by the program that they are of. Wants program, share (a folder), commands.
function(lockstep_says out)
  execute_process(COMMAND ${program} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${share}/man)
lockstep_says(nothing man --dir ${share}/man)
file(GLOB pages ${share}/man/man1/*.1)
execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)

# bash looks for a file of the command's name.
lockstep_says(text completion bash)
file(WRITE ${share}/bash-completion/completions/lockstep "${text}")
foreach(command IN LISTS commands)
  file(CREATE_LINK lockstep ${share}/bash-completion/completions/${command} SYMBOLIC)
endforeach()

# zsh runs the whole file when the first of these is completed, and expects that one's completion of it.
list(JOIN commands " " names)
lockstep_says(text completion zsh)
file(WRITE ${share}/zsh/vendor-completions/_lockstep_commands "#compdef lockstep ${names}\n${text}\neval \"$_comps[$service]\"\n")

# fish looks for a file of the command's name, too; all of them read the same.
lockstep_says(text completion fish)
file(WRITE ${share}/fish/vendor_completions.d/lockstep.fish "${text}")
foreach(command IN LISTS commands)
  file(CREATE_LINK lockstep.fish ${share}/fish/vendor_completions.d/${command}.fish SYMBOLIC)
endforeach()
