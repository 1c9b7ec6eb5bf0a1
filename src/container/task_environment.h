// The environment of a task in a container, as pyxis has it: what the image sets wins over what the job has, but for
// the names that --container-env lists.
#pragma once

#include <string>
#include <vector>

#include "container/image_config.h"
#include "model/program.h"

namespace lockstep {

// The user's home outside, where an image says another: steps that are started inside hand both on, and what is the
// user's own, such as the credentials for a registry, is looked for there.
inline constexpr const char* kOuterHome = "LOCKSTEP_OUTER_HOME";

// given: the job's, NAME=value. Also what PyTorch's launcher would set, where the image says that it is one with
// PyTorch, and its caller does not.
std::vector<std::string> task_environment(const std::vector<std::string>& given, const ImageConfig& image,
                                          const Container& container);

// The value of a name; "" where there is none.
std::string_view value_in(const std::vector<std::string>& env, std::string_view name);
void set_in(std::vector<std::string>& env, std::string_view name, std::string_view value);

// A program by its name in the PATH of the environment, or a path as it is.
std::vector<std::string> candidates_for(const std::string& program, std::string_view path);

}  // namespace lockstep
