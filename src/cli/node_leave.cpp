// Leaving in good order, without a right at the controller: the agent says that its machine takes no new work, what
// runs ends, and only then the node's files go. What the controller still knows of the name is an administrator's to
// remove.
#include <stdio.h>
#include <unistd.h>

#include <optional>

#include "base/installed.h"
#include "base/text.h"
#include "cli/installed_node.h"
#include "cli/local_cluster.h"
#include "cli/node_join.h"
#include "cli/verb_words.h"
#include "io/local/node_init.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep node leave [--now]

Takes this machine out of its cluster, as root: it takes no new work from now on; when what runs here has ended, the agent
is stopped, and its settings, key and certificate are removed. Safe to interrupt and to run again; until it is through,
`lockstep node join` lets the machine stay. The cluster goes on to list the name as down until an administrator says
`lockstep node remove NAME` on the controller's machine, or until a machine joins under it again.

  --now    kill what runs here, instead of waiting for its end: its jobs fail
)help";

constexpr Duration kNowPatience = seconds(30), kTellEvery = seconds(60);

std::string shims_folder() { return installed_paths().agent_run_dir + "/shims/"; }

// "12-1-batch" is of job 12.
std::vector<std::string> jobs_of(const std::vector<std::string>& work) {
  std::vector<std::string> jobs;
  for (const auto& name : work)
    if (const std::string job = name.substr(0, name.find_first_not_of("0123456789"));
        jobs.empty() || jobs.back() != job)
      jobs.push_back(job);
  return jobs;
}

// The controller has heard that nothing new may come. One that is away could not send anything either.
bool is_closed() {
  const auto ping = wait_for_node(seconds(10));
  return !ping || ping->node_state == "drained" || ping->node_state == "draining";
}

// False: something still runs, and there is no more patience.
bool wait_for_ends(Duration patience) {
  std::optional<Instant> told;
  for (const Instant until = boot_now() + patience;; usleep(100'000)) {
    const auto work = work_below(shims_folder());
    if (work.empty())
      return true;
    if (boot_now() >= until)
      return false;
    if (told && boot_now() - *told < kTellEvery)
      continue;
    told = boot_now();
    fprintf(stderr, "lockstep node leave: waiting for the end of job %s here; --now kills what runs\n",
            join(jobs_of(work), ", ").c_str());
  }
}

Result<void> let_end(AgentFile file, bool now) {
  if (!file.leaving) {
    file.leaving = true;
    TRY(write_agent_file(file));
    if (agent_runs())
      TRY(restart_agent());
  }
  if (!agent_runs() && !now && !work_below(shims_folder()).empty())
    return conflict(
        format("jobs run here, and the agent, which would tell of their ends, does not: start it (`lockstep node "
               "join …` again, or `systemctl start {}`), or kill what runs with --now",
               kAgentUnit));
  while (agent_runs() && !is_closed()) usleep(100'000);
  if (now)
    kill_work_below(shims_folder());
  if (!wait_for_ends(now ? kNowPatience : kForever))
    fputs(
        "lockstep node leave: what runs here did not end in good order; it is killed, and the cluster waits until it "
        "is "
        "certain of that\n",
        stderr);
  return {};
}

// Where the controller is on this machine too, root is an administrator: nothing of the node stays there either.
bool forget_at_controller(const std::string& name) {
  if (!has_installed_controller())
    return false;
  const ClusterDir dir{installed_paths().controller_dir, "", ClusterDir::Kind::kController};
  UpdateNode off;
  off.revoke = true;
  return ask_controller(dir, "POST", "/v1/nodes/" + name + "?now=1", encode(off)).ok() &&
         ask_controller(dir, "DELETE", "/v1/nodes/" + name).ok();
}

Result<void> leave(bool now) {
  if (geteuid() != 0)
    return denied("only root can take this machine out of its cluster");
  if (!is_installed_node())
    return not_found(format("this machine is no node: there is no {}", installed_paths().agent_settings));
  const auto file = read_agent_file();
  if (file)
    TRY(let_end(*file, now));
  else if (!now)
    return Error{file.error().code, file.error().message + ". Mend it, or leave with --now", {}};
  const bool was_told = wait_for_node(seconds(2)).ok();
  TRY(stop_agent());
  TRY(end_shims_below(shims_folder()));
  const std::string name = file ? file->node : host_name();
  const bool forgotten = file && is_own_node(*file) && forget_at_controller(name);
  TRY(remove_node_files());
  if (forgotten)
    printf("this machine, node %s, has left its cluster\n", name.c_str());
  else if (!was_told)
    printf(
        "this machine was node %s of a cluster whose controller did not answer and was not told: it lists the "
        "node until `lockstep node remove %s` is said there\n",
        name.c_str(), name.c_str());
  else
    printf(
        "this machine, node %s, has left its cluster, which lists it as down until `lockstep node remove %s` is said "
        "on "
        "the controller's machine; a token with which it comes back: lockstep node token --node %s\n",
        name.c_str(), name.c_str(), name.c_str());
  return {};
}

}  // namespace

int node_leave_main(int argc, char** argv) {
  static const option kOptions[] = {{"now", 0, nullptr, 'w'}, {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  bool now = false;
  VerbWords words({.verb = "node leave", .options = kOptions}, argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'w': now = true; break;
      case 'h': fputs(kHelp, stdout); return 0;
      default: return 2;
    }
  if (const auto left = leave(now); !left) {
    fprintf(stderr, "lockstep node leave: %s\n", left.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace lockstep
