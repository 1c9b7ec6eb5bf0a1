#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/local_cluster.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/shell_word.h"
#include "io/local/state_dir.h"
#include "io/local/survivors.h"
#include "views/shown_text.h"

namespace lockstep {

namespace {

constexpr const char* kStatusHelp = R"help(Usage: lockstep status [--dir DIR] [-o table|json]

Controller, nodes and jobs of a cluster of this machine; when and why controller and agents ended and were started
again (of an agent until it has run for ten minutes since; always with -o json); which commands are refused because they ended the controller; what of the cluster's files is damaged or was
replaced, and who took over from whom (notice). Exit code 0 when the controller is up, 3 when it is not.
Without --dir and $LOCKSTEP_DIR the cluster that is installed here is meant, if there is one.
)help";
constexpr const char* kEnvHelp = R"help(Usage: lockstep env [--dir DIR]

Prints the exports that point this shell's sbatch, srun, squeue … at a cluster:  eval "$(lockstep env)"
)help";

std::string clock_text(std::int64_t at_s) {
  char text[32] = "";
  const time_t when = at_s;
  tm local{};
  if (localtime_r(&when, &local))
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

// What befell an agent that has run well for a while concerns nobody any more; -o json still tells.
bool is_over(const NodeStatus& node) {
  constexpr std::int64_t kWhile = 600;
  const bool is_well = node.agent_pid != 0 && node.state != "down" && node.state != "unknown";
  return is_well && time(nullptr) - node.agent_last_end_at_s >= kWhile;
}

// Why the controller or an agent was started again, and what is refused since because it ended the controller.
void print_ends(const ClusterStatus& s) {
  if (s.ends > 0)
    printf("            ended %u time(s), last%s: %s\n", s.ends,
           s.last_end_at_s > 0 ? (" at " + clock_text(s.last_end_at_s)).c_str() : "", shown(s.last_end).c_str());
  if (s.next_start_at_s > 0)
    printf("            next start at %s; `lockstep up` starts it now\n", clock_text(s.next_start_at_s).c_str());
  if (s.controller_pid && !s.supervisor_pid && !s.supervisor_unknown)
    puts("            nobody starts it again if it ends: run `lockstep up`");
  for (const auto& what : s.notices) printf("notice      %s\n", shown(what).c_str());
  for (const auto& what : s.quarantined) printf("            quarantined: %s\n", shown(what).c_str());
  for (const auto& n : s.nodes)
    if (n.agent_ends > 0 && !is_over(n))
      printf("agent of %s ended %u time(s), last at %s: %s\n", shown(n.name).c_str(), n.agent_ends,
             clock_text(n.agent_last_end_at_s).c_str(), shown(n.agent_last_end).c_str());
}

std::string no_cluster_advice(const ClusterDir& dir) {
  const bool is_place_for_one =
      cluster_above(dir.root).empty() && (access(dir.root.c_str(), F_OK) == 0 || errno != EACCES);
  return no_cluster_text(dir) + (is_place_for_one ? "; start one with: lockstep up --dir " + dir.root : "");
}

void print_jobs(const ClusterStatus& s) {
  std::vector<std::string> counts;
  for (const auto& [state, count] : s.jobs)
    if (count > 0)
      counts.push_back(format("{} {}", count, shown(state)));
  const std::string none = s.jobs_known                 ? "none"
                           : s.controller_state == "up" ? "not shown to the root of a node"
                                                        : "not known: the controller does not answer";
  printf("jobs        %s\n", counts.empty() ? none.c_str() : join(counts, ", ").c_str());
}

// "0/503G"; of a small machine "0.0/1.9G".
std::string memory_text(std::int64_t used_mb, std::int64_t all_mb) {
  constexpr std::int64_t kSmallMb = 10 * 1024;
  if (all_mb >= kSmallMb)
    return format("{}/{}G", used_mb / 1024, all_mb / 1024);
  return format("{:.1f}/{:.1f}G", static_cast<double>(used_mb) / 1024, static_cast<double>(all_mb) / 1024);
}

void print_table(const ClusterStatus& s) {
  printf("cluster     %s (%s)\n", s.cluster.empty() ? "name not known" : shown(s.cluster).c_str(),
         shown(s.dir).c_str());
  printf("controller  %s", shown(s.controller_state).c_str());
  if (s.controller_pid)
    printf(", pid %d", s.controller_pid);
  if (!s.version.empty())
    printf(", version %s", shown(s.version).c_str());
  puts("");
  print_ends(s);
  print_jobs(s);
  printf("\n%-12s %-12s %-15s %9s %15s %14s\n", "NODE", "STATE", "ADDRESS", "CORES", "MEMORY", "GPUS");
  for (const auto& n : s.nodes)
    printf("%-12s %-12s %-15s %9s %15s %14s%s%s\n", shown(n.name).c_str(), shown(n.state).c_str(),
           shown(n.address).c_str(), format("{}/{}", n.cores_used, n.cores).c_str(),
           memory_text(n.memory_used_mb, n.memory_mb).c_str(),
           n.devices ? format("{}/{} {}", n.devices_used, n.devices, shown(n.device_type)).c_str() : "-",
           n.reason.empty() ? "" : "  ", shown(n.reason).c_str());
}

}  // namespace

int status_main(int argc, char** argv) {
  static const option kOptions[] = {{"dir", 1, nullptr, 'd'},
                                    {"output", 1, nullptr, 'o'},
                                    {"json", 0, nullptr, 'j'},
                                    {"help", 0, nullptr, 'h'},
                                    {nullptr, 0, nullptr, 0}};
  std::string path, output = "table";
  VerbWords words({.verb = "status", .options = kOptions, .letters = "o:h", .instead = kDirInstead}, argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'd': path = optarg; break;
      case 'o': output = optarg; break;
      case 'j': output = "json"; break;
      case 'h': fputs(kStatusHelp, stdout); return 0;
      default: return 2;
    }
  if (output != "table" && output != "json") {
    fprintf(stderr, "lockstep status: -o %s: write table or json\n", output.c_str());
    return 2;
  }
  const ClusterDir dir = cluster_dir(path);
  if (!dir.is_ours()) {
    if (id_of_those_in(dir.root).empty())
      fprintf(stderr, "lockstep status: %s\n", no_cluster_advice(dir).c_str());
    else
      fprintf(stderr, "lockstep status: %s was removed while its cluster runs; stop it with: lockstep down --dir %s\n",
              dir.root.c_str(), dir.root.c_str());
    return 1;
  }
  const auto status = cluster_status(dir);
  if (!status) {
    fprintf(stderr, "lockstep status: %s\n", status.error().message.c_str());
    return 1;
  }
  if (output == "json")
    fputs(encode(*status).c_str(), stdout);
  else
    print_table(*status);
  return status->controller_state == "up" ? 0 : 3;
}

int env_main(int argc, char** argv) {
  static const option kOptions[] = {{"dir", 1, nullptr, 'd'}, {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  std::string path;
  VerbWords words({.verb = "env", .options = kOptions, .instead = kDirInstead}, argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'd': path = optarg; break;
      case 'h': fputs(kEnvHelp, stdout); return 0;
      default: return 2;
    }
  const ClusterDir dir = cluster_dir(path);
  if (!dir.exists()) {
    fprintf(stderr, "lockstep env: %s\n", no_cluster_advice(dir).c_str());
    return 1;
  }
  if (dir.is_installed())
    puts("unset LOCKSTEP_DIR");
  else
    printf("export LOCKSTEP_DIR=%s\n", slurm::shell_quoted(dir.root).c_str());
  printf("export LOCKSTEP_SOCKET=%s\nexport PATH=%s:\"$PATH\"\n", slurm::shell_quoted(dir.socket()).c_str(),
         slurm::shell_quoted(program_dir()).c_str());
  return 0;
}

}  // namespace lockstep
