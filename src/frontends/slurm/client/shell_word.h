// Words for people to copy into a shell.
#pragma once

#include <string>

namespace lockstep::slurm {

std::string shell_quoted(const std::string& text);
std::string as_shell_word(const std::string& text);  // quoted only where it must be

}  // namespace lockstep::slurm
