// Programs around a task: what a task's first process is where the site or srun's user has some. It runs the prologs,
// takes what they say of the environment, and becomes the task; with epilogs it stays behind as the task's parent and
// runs them when the task has ended. All of it as the user: nothing here is trusted with more.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

inline constexpr const char* kAroundTaskOption = "--around-task";

// Words of the process: the option, the programs, and what the task itself is to run.
std::vector<std::string> words_around_task(const std::vector<std::string>& prologs,
                                           const std::vector<std::string>& epilogs,
                                           const std::vector<std::string>& task);

// What the output of a prolog asks for, line by line: "export NAME=value", "unset NAME", "print text". Anything else
// says nothing, as with Slurm. Returns what is to be printed.
std::string apply_task_prolog(std::string_view output, std::map<std::string, std::string>& environment);

// The process itself; words behind the option. Returns the exit code, if it returns.
int run_around_task(int count, char** words);

}  // namespace lockstep
