#include "frontends/slurm/client/environment.h"

#include <unistd.h>

#include <cstring>

#include "base/text.h"
#include "frontends/slurm/client/options.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/values.h"
#include "model/own_tmp.h"

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

// What the tasks of an outer step were told to find each other, which is not of those that are started now.
bool is_of_outer_world(std::string_view name) {
  static constexpr std::string_view kNames[] = {"PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_JOBID",
                                                "SLURM_PMIX_MAPPING_SERV"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         (name.starts_with("PMIX_") && !name.starts_with("PMIX_MCA_"));
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

namespace {

// What --export names: all of the caller's variables, or those that are chosen, with their values.
struct ExportList {
  bool all = false;
  Variables chosen;
};
Result<ExportList> export_list(const Variables& own, std::string_view text) {
  ExportList out{text.empty(), {}};
  for (const auto& item : TRY(split_export(text))) {
    const std::string word = lower(item);
    const auto equals = item.find('=');
    const std::string_view name = std::string_view(item).substr(0, equals);
    if (item.empty())
      continue;
    if (word == "all") {
      out.all = true;
    } else if (word == "none" || word == "nil") {
      if (text.find(',') != std::string_view::npos)
        return invalid(format("--export: NONE stands alone, not in \"{}\"", text), "export");
    } else if (!valid_name(name)) {
      return invalid(
          format("--export: \"{}\" is {}", item, equals == std::string::npos ? "no variable's name" : "not NAME=value"),
          "export");
    } else if (equals != std::string::npos) {
      put(out.chosen, name, std::string_view(item).substr(equals + 1));
    } else if (const std::string* value = value_of(own, item)) {
      put(out.chosen, item, *value);
    }
  }
  return out;
}

// What a job has also where nothing is exported.
bool is_always_passed(std::string_view name) {
  static constexpr std::string_view kLogin[] = {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LOCKSTEP_SOCKET"};
  return name.starts_with("SLURM_") || std::find(std::begin(kLogin), std::end(kLogin), name) != std::end(kLogin);
}

// A login's path, and the folder of these commands, so that a script finds srun.
std::string login_path() {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
  const std::string program(self, n > 0 ? static_cast<std::size_t>(n) : 0);
  const std::string path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  const auto slash = program.rfind('/');
  return slash != std::string::npos && slash > 0 ? program.substr(0, slash) + ":" + path : path;
}

}  // namespace

Result<Variables> exported(const Variables& own, std::string_view export_text, bool new_job) {
  const bool inside = new_job && value_of(own, "SLURM_JOB_ID") != nullptr;
  const ExportList list = TRY(export_list(own, export_text));
  Variables out;
  for (const auto& [name, value] : own)
    if ((!inside || !describes_job(name)) && !is_of_outer_world(name) && (list.all || is_always_passed(name)))
      out.emplace_back(name, value);
  for (const auto& [name, value] : list.chosen) put(out, name, value);
  if (!list.all && !value_of(out, "PATH"))
    put(out, "PATH", login_path());
  return out;
}

Result<void> put_own_tmp(const OptionSet& options, Variables& variables) {
  std::erase_if(variables, [](const auto& one) { return one.first == kTmpfsVariable; });
  const Given* given = options.find("tmpfs");
  if (!given)
    return {};
  const auto mb = parse_memory_mb(given->text);
  if (!mb || *mb <= 0)
    return bad_value(options, "tmpfs");
  put(variables, kTmpfsVariable, std::to_string(*mb));
  return {};
}

}  // namespace lockstep::slurm
