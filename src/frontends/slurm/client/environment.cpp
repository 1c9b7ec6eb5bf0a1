#include "frontends/slurm/client/environment.h"

#include <unistd.h>

#include <cstring>

#include "base/text.h"

namespace lockstep::slurm {

namespace {

// Settings of the commands themselves: they stay what they are inside of a new job.
bool is_setting(std::string_view name) {
  static constexpr std::string_view kNames[] = {"SLURM_CONF",       "SLURM_TIME_FORMAT",    "SLURM_CLUSTERS",
                                                "SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE", "SLURM_MPI_TYPE",
                                                "SLURM_DEBUG",      "SLURM_CPU_BIND_TYPE"};
  for (const auto known : kNames)
    if (known == name)
      return true;
  return false;
}

bool describes_job(std::string_view name) {
  static constexpr std::string_view kDevices[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
                                                  "GPU_DEVICE_ORDINAL", "SLURMD_NODENAME"};
  for (const auto known : kDevices)
    if (known == name)
      return true;
  return (name.starts_with("SLURM_") || name.starts_with("SRUN_")) && !is_setting(name);
}

bool valid_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9'))
    return false;
  for (const char c : name)
    if (c == '=' || static_cast<unsigned char>(c) <= ' ')
      return false;
  return true;
}

// Commas inside of values cannot be told from separators, except where the value is quoted: A='1,2',B=3.
Result<std::vector<std::string>> split_export(std::string_view text) {
  std::vector<std::string> out{""};
  char quote = 0;
  for (const char c : text) {
    if (quote && c == quote)
      quote = 0;
    else if (!quote && (c == '\'' || c == '"'))
      quote = c;
    else if (!quote && c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  if (quote)
    return invalid(format("--export: unmatched {} in \"{}\"", quote, text), "export");
  return out;
}

}  // namespace

const std::string* value_of(const Variables& variables, std::string_view name) {
  for (const auto& [key, value] : variables)
    if (key == name)
      return &value;
  return nullptr;
}

void put(Variables& variables, std::string_view name, std::string_view value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = value;
      return;
    }
  }
  variables.emplace_back(name, value);
}

Variables own_variables() {
  Variables out;
  for (char** entry = environ; entry && *entry; ++entry)
    if (const char* equals = std::strchr(*entry, '='); equals && equals != *entry)
      out.emplace_back(std::string(*entry, static_cast<std::size_t>(equals - *entry)), std::string(equals + 1));
  return out;
}

std::string nul_separated(const Variables& variables) {
  std::string out;
  for (const auto& [name, value] : variables) {
    out += name;
    out += '=';
    out += value;
    out += '\0';
  }
  return out;
}

Result<Variables> parse_variables(std::string_view text) {
  Variables out;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    const std::string_view entry = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (entry.empty())
      continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || !valid_name(entry.substr(0, equals)))
      return invalid(format("\"{}\" is not NAME=value", entry.substr(0, 80)), "export");
    put(out, entry.substr(0, equals), entry.substr(equals + 1));
  }
  return out;
}

Result<Variables> exported(const Variables& own, std::string_view export_text, bool new_job) {
  const bool inside = new_job && value_of(own, "SLURM_JOB_ID") != nullptr;
  const auto passes = [&](std::string_view name) { return !inside || !describes_job(name); };
  bool all = export_text.empty();
  Variables chosen;
  for (const auto& item : TRY(split_export(export_text))) {
    const std::string word = lower(item);
    if (item.empty())
      continue;
    if (word == "all") {
      all = true;
    } else if (word == "none" || word == "nil") {
      if (export_text.find(',') != std::string_view::npos)
        return invalid(format("--export: NONE stands alone, not in \"{}\"", export_text), "export");
    } else if (const auto equals = item.find('='); equals != std::string::npos) {
      if (!valid_name(std::string_view(item).substr(0, equals)))
        return invalid(format("--export: \"{}\" is not NAME=value", item), "export");
      put(chosen, std::string_view(item).substr(0, equals), std::string_view(item).substr(equals + 1));
    } else if (!valid_name(item)) {
      return invalid(format("--export: \"{}\" is no variable's name", item), "export");
    } else if (const std::string* value = value_of(own, item)) {
      put(chosen, item, *value);
    }
  }
  Variables out;
  for (const auto& [name, value] : own) {
    static constexpr std::string_view kLogin[] = {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LOCKSTEP_SOCKET"};
    const bool login = std::find(std::begin(kLogin), std::end(kLogin), name) != std::end(kLogin);
    if (passes(name) && (all || login || name.starts_with("SLURM_")))
      out.emplace_back(name, value);
  }
  for (const auto& [name, value] : chosen) put(out, name, value);
  if (!all && !value_of(out, "PATH")) {
    // A login's path, and the folder of these commands, so that a script finds srun.
    char self[4096];
    const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
    std::string path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    const std::string program(self, n > 0 ? static_cast<std::size_t>(n) : 0);
    if (const auto slash = program.rfind('/'); slash != std::string::npos && slash > 0)
      path = program.substr(0, slash) + ":" + path;
    put(out, "PATH", path);
  }
  return out;
}

}  // namespace lockstep::slurm
