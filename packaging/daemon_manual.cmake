# The manual page of a daemon holds the text of its --help, as those of the commands do. Wants program, purpose, version
# and folder (of man8).
cmake_path(GET program FILENAME name)
string(TOUPPER ${name} title)
execute_process(COMMAND ${program} --help OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\\" "\\e" text "${text}")
string(REPLACE "-" "\\-" text "${text}")
string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
file(WRITE ${folder}/${name}.8 ".TH ${title} 8 \"\" \"Lockstep ${version}\" \"System Administration\"
.SH NAME
${name} \\- ${purpose}
.SH DESCRIPTION
.nf
${text}.fi
.SH SEE ALSO
lockstep(1), lockstep\\-up(1), lockstep\\-node(1), lockstep\\-doctor(1)
")
execute_process(COMMAND gzip -9nf ${folder}/${name}.8 COMMAND_ERROR_IS_FATAL ANY)
