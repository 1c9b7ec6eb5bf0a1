#include "container/task_environment.h"

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kPortFirst = 49152, kPorts = 16384;  // ports that nobody is assigned

bool is_of(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=';
}

void set_missing(std::vector<std::string>& env, std::string_view name, std::string_view value) {
  if (!value.empty() && value_in(env, name).empty())
    set_in(env, name, value);
}

// Each task is a rank of one world; the first node's is where they meet.
void set_up_pytorch(std::vector<std::string>& env) {
  if (value_in(env, "PYTORCH_VERSION").empty() || value_in(env, "SLURM_PROCID").empty())
    return;
  set_missing(env, "RANK", value_in(env, "SLURM_PROCID"));
  set_missing(env, "LOCAL_RANK", value_in(env, "SLURM_LOCALID"));
  set_missing(env, "WORLD_SIZE", value_in(env, "SLURM_NTASKS"));
  const auto nodes = expand_hostlist(value_in(env, "SLURM_JOB_NODELIST"), kHostsAskedMax);
  if (nodes.ok() && !nodes->empty())
    set_missing(env, "MASTER_ADDR", nodes->front());
  if (const auto job = parse_uint(value_in(env, "SLURM_JOB_ID")))
    set_missing(env, "MASTER_PORT", std::to_string(kPortFirst + *job % kPorts));
}

}  // namespace

std::string_view value_in(const std::vector<std::string>& env, std::string_view name) {
  for (const std::string& line : env)
    if (is_of(line, name))
      return std::string_view(line).substr(name.size() + 1);
  return {};
}

void set_in(std::vector<std::string>& env, std::string_view name, std::string_view value) {
  std::string line = format("{}={}", name, value);
  const auto found = std::find_if(env.begin(), env.end(), [&](const std::string& other) { return is_of(other, name); });
  if (found != env.end())
    *found = std::move(line);
  else
    env.push_back(std::move(line));
}

std::vector<std::string> task_environment(const std::vector<std::string>& given, const ImageConfig& image,
                                          const Container& container) {
  std::vector<std::string> env = given;
  const std::vector<std::string>& kept = container.keep_env;
  for (const std::string& line : image.env) {
    const std::size_t equals = line.find('=');
    const std::string_view name = std::string_view(line).substr(0, equals);
    const bool keeps = std::find(kept.begin(), kept.end(), name) != kept.end() && !value_in(given, name).empty();
    if (!keeps && equals != line.npos)
      set_in(env, name, std::string_view(line).substr(equals + 1));
  }
  if (container.remap_root && std::find(kept.begin(), kept.end(), "HOME") == kept.end())
    set_in(env, "HOME", "/root");
  if (const auto outside = value_in(given, "HOME"); !outside.empty() && value_in(env, "HOME") != outside)
    set_missing(env, kOuterHome, outside);
  if (value_in(env, "PATH").empty())
    set_in(env, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  set_up_pytorch(env);
  return env;
}

std::vector<std::string> candidates_for(const std::string& program, std::string_view path) {
  if (program.find('/') != program.npos)
    return {program};
  std::vector<std::string> out;
  for (const std::string& folder : split(path, ':')) out.push_back((folder.empty() ? "." : folder) + "/" + program);
  return out;
}

}  // namespace lockstep
