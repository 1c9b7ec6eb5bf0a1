// seff: how much of what a job held it has used.
#include <grp.h>
#include <stdio.h>

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/sacct_fields.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/values.h"

namespace lockstep::slurm {

namespace {

struct Wish {};

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {'h', "help usage", Takes::kNothing, "", "", Shows::kHelp},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {
    .head =
        "Usage: seff JOB\n\nHow much of its processors, memory and GPUs a job that has "
        "ended has used.\n\n",
    .options = kOptions};

enum Column : std::size_t {
  kId,
  kState,
  kExit,
  kNodes,
  kCpus,
  kElapsed,
  kTotalCpu,
  kUsage,
  kAllocated,
  kUser,
  kGroup,
  kCluster,
  kUsageMost,
  kColumns
};
constexpr const char* kNames =
    "jobid,state,exitcode,nnodes,ncpus,elapsed,totalcpu,tresusageintot,alloctres,user,gid,cluster,tresusageinmax";

// "1-02:03:04", "02:03:04", "03:04.500"
double seconds_in(std::string_view text) {
  double days = 0;
  if (const auto dash = text.find('-'); dash != text.npos) {
    days = static_cast<double>(parse_uint(text.substr(0, dash)).value_or(0));
    text.remove_prefix(dash + 1);
  }
  double sum = 0;
  for (const std::string& part : split(text, ':')) {
    const auto dot = part.find('.');
    double value = static_cast<double>(parse_uint(part.substr(0, dot)).value_or(0));
    if (dot != std::string::npos)
      value += static_cast<double>(parse_uint(part.substr(dot + 1)).value_or(0)) / 1000;
    sum = sum * 60 + value;
  }
  return days * 86'400 + sum;
}

// The memory among "cpu=4,mem=16G,node=1" or "cpu=00:00:01,mem=1234K", in KiB. word: "mem=", or another of that kind.
double memory_in(std::string_view tres, std::string_view word = "mem=") {
  for (const std::string& part : split(tres, ','))
    if (part.starts_with(word)) {
      const auto from = word.size();
      const std::string_view digits =
          std::string_view(part).substr(from, part.find_first_not_of("0123456789.", from) - from);
      const auto dot = digits.find('.');
      double value = static_cast<double>(parse_uint(digits.substr(0, dot)).value_or(0));
      if (dot != digits.npos)
        value += static_cast<double>(parse_uint(digits.substr(dot + 1)).value_or(0)) / 100;
      for (const char unit : std::string_view("KMGTP")) {
        if (part.back() == unit)
          return value;
        value *= 1024;
      }
    }
  return 0;
}

// The number behind "gres/gpu=" and the like.
double count_in(std::string_view tres, std::string_view word) {
  for (const std::string& part : split(tres, ','))
    if (part.starts_with(word))
      return static_cast<double>(parse_uint(std::string_view(part).substr(word.size())).value_or(0));
  return 0;
}

std::string clock_text(double seconds) {
  const auto all = static_cast<std::int64_t>(seconds);
  const std::string hours = format("{:02}:{:02}:{:02}", all / 3'600 % 24, all / 60 % 60, all % 60);
  return all >= 86'400 ? format("{}-{}", all / 86'400, hours) : hours;
}

std::string size_text(double kib) {
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (kib >= 1024 && unit + 1 < std::size(kUnits)) {
    kib /= 1024;
    ++unit;
  }
  return format("{:.2f} {}", kib, kUnits[unit]);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// The rows of the first job that was found: its own and those of its script and steps. The elements of an array are
// jobs of their own.
std::size_t rows_of_first(const Rows& rows) {
  const std::string own = format("{}.", rows.cell(0, kId));
  std::size_t end = 1;
  while (end < rows.size() && rows.cell(end, kId).starts_with(own)) ++end;
  return end;
}

// Of this machine's own file: linked as we are, nothing could be loaded that asks a directory service. Else its number.
std::string group_name(std::string_view gid) {
  std::string name(gid);
  const auto number = parse_uint(gid);
  FILE* const file = number ? ::fopen("/etc/group", "re") : nullptr;
  if (!file)
    return name;
  while (const ::group* entry = ::fgetgrent(file))
    if (entry->gr_gid == *number) {
      name = entry->gr_name;
      break;
    }
  ::fclose(file);
  return name;
}

// Of a job that held GPUs: the time in which they computed, over its script and all of its steps.
std::string gpu_report(const Rows& rows, std::size_t count, double gpus, double elapsed) {
  double busy = 0, memory = 0;
  for (std::size_t row = 0; row < count; ++row) {
    const auto seconds = static_cast<double>(parse_uint(rows.cell(row, kElapsed)).value_or(0));
    busy += count_in(rows.cell(row, kUsage), "gres/gpuutil=") / 100 * std::max(1.0, seconds);
    memory = std::max(memory, memory_in(rows.cell(row, kUsageMost), "gres/gpumem="));
  }
  return format(
      "GPUs: {}\nGPU Utilized: {}\nGPU Efficiency: {:.2f}% of {} GPU-walltime\nGPU Memory Utilized: {} (most on one "
      "GPU)\n",
      gpus, clock_text(busy), percent(busy, elapsed * gpus), clock_text(elapsed * gpus), size_text(memory));
}

std::string report(const Rows& rows, std::size_t count) {
  const auto job = [&rows](Column column) { return std::string(rows.cell(0, column)); };
  double memory = 0;
  for (std::size_t row = 0; row < count; ++row) memory = std::max(memory, memory_in(rows.cell(row, kUsage)));
  const double nodes = static_cast<double>(std::max<std::uint64_t>(1, parse_uint(job(kNodes)).value_or(1)));
  const double cpus = static_cast<double>(parse_uint(job(kCpus)).value_or(0));
  const double elapsed = static_cast<double>(parse_uint(job(kElapsed)).value_or(0));
  const double used = seconds_in(job(kTotalCpu)), held = memory_in(job(kAllocated));
  std::string out =
      format("Job ID: {}\nCluster: {}\nUser/Group: {}/{}\nState: {} (exit code {})\n", job(kId), job(kCluster),
             job(kUser), group_name(job(kGroup)), job(kState), job(kExit).substr(0, job(kExit).find(':')));
  out += nodes > 1 ? format("Nodes: {}\nCores per node: {}\n", nodes, static_cast<std::int64_t>(cpus / nodes))
                   : format("Cores: {}\n", cpus);
  out += format("CPU Utilized: {}\nCPU Efficiency: {:.2f}% of {} core-walltime\nJob Wall-clock time: {}\n",
                clock_text(used), percent(used, elapsed * cpus), clock_text(elapsed * cpus), clock_text(elapsed));
  out += format("Memory Utilized: {}\n", size_text(memory));
  out += held > 0 ? format("Memory Efficiency: {:.2f}% of {}\n", percent(memory, held), size_text(held))
                  : std::string("Memory Efficiency: the job had no bound\n");
  if (const double gpus = count_in(job(kAllocated), "gres/gpu="); gpus > 0)
    out += gpu_report(rows, count, gpus, elapsed);
  return out;
}

}  // namespace

int seff_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("seff");
  Wish wish;
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  if (line.words.size() != 1) {
    voice.error(line.words.empty() ? "which job? Name one" : "one job at a time");
    return 1;
  }
  const std::string& name = line.words[0];
  if (name.empty() || name.find_first_of(".,") != name.npos) {
    voice.error(format("Invalid job id: {}{}", name, name.empty() ? "" : ": one whole job is meant, as 12 or 12_3"));
    return 1;
  }
  Query query(context);
  const auto body = query.get("/slurm/v1/sacct", {{"columns", kNames}, {"jobs", name}});
  if (!body) {
    if (!say_unreached(voice, "slurm_load_jobs error", body.error()))
      voice.error(body.error().message);
    return 1;
  }
  const Rows rows(*body, kColumns);
  if (rows.size() == 0) {
    voice.error(format("Job not found: {}", name));
    return 2;
  }
  const std::size_t first = rows_of_first(rows);
  if (first < rows.size())
    voice.warning(format("{0} has several jobs, of which this is {1}; `sacct -X -j {0}` lists them all", name,
                         rows.cell(0, kId)));
  say(report(rows, first));
  const std::string_view state = rows.cell(0, kState);
  if (state == "RUNNING" || state == "PENDING" || state == "SUSPENDED")
    say(format("WARNING: Efficiency statistics may be misleading for {} jobs.\n", state));
  return 0;
}

}  // namespace lockstep::slurm
