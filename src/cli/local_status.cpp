// How an embedded cluster fares: what its controller says, what the notes in its directory say, and what of the
// directory cannot be read.
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/local_cluster.h"
#include "io/local/folder.h"
#include "io/local/node_init.h"
#include "io/local/restarts.h"
#include "io/local/state_dir.h"

namespace lockstep {

namespace {

void add_controller_note(ClusterStatus& status, const RunNote& note) {
  const auto running = [](const std::optional<ProcessId>& process) {
    return process && alive(*process) ? process->pid : 0;
  };
  status.controller_pid = running(note.process);
  status.supervisor_pid = running(note.supervisor);
  status.supervisor_unknown = false;
  status.ends = note.ends;
  status.last_end = note.ended;
  status.last_end_at_s = note.ended_at_s;
  if (status.supervisor_pid)
    status.next_start_at_s = status.controller_pid ? 0 : note.next_at_s;
  else if (note.process && !status.controller_pid) {
    // The note tells of an earlier end: of this one nobody was left to write.
    ++status.ends;
    status.last_end = "it ended after its supervisor had; nobody saw how. `lockstep up` starts both";
    status.last_end_at_s = 0;
  }
}

// A supervisor that lives has not yet written down that its process ended: it is about to.
Result<RunNote> settled_note(const std::string& path) {
  constexpr int kTries = 40;  // of 5 ms
  for (int tries = 1;; ++tries) {
    auto note = read_run_note(path);
    const bool open_end =
        note && note->process && !alive(*note->process) && note->supervisor && alive(*note->supervisor);
    if (!open_end || tries == kTries)
      return note;
    usleep(5'000);
  }
}

void add_node_notes(NodeStatus& node, const ClusterDir& dir) {
  if (const auto process = node_process(dir, node.name)) {
    node.pid = process->pid;
    node.agent_pid = agent_of(*process);
  }
  if (const auto note = read_run_note(dir.node_dir(node.name) + "/" + kAgentNoteFile)) {
    node.agent_ends = note->ends;
    node.agent_last_end = note->ended;
  }
}

// Only the cluster's owner can read these; others see what the controller says of itself.
void add_local_parts(ClusterStatus& status, const ClusterDir& dir) {
  if (const auto note = settled_note(dir.file(kControllerNoteFile)))
    add_controller_note(status, *note);
  else if (note.error().code == Errc::kCorrupt)
    status.notices.push_back(
        format("{} is damaged: what runs is not known from it. `lockstep down` finds it all the same",
               dir.file(kControllerNoteFile)));
  if (const auto list = read_file(dir.file("applying.list")))
    for (auto& line : split(*list, '\n'))
      if (!line.empty())
        status.quarantined.push_back(std::move(line));
  for (auto& node : status.nodes) add_node_notes(node, dir);
}

bool is_owner(const ClusterDir& dir) {
  struct stat found {};
  return stat(dir.root.c_str(), &found) == 0 && found.st_uid == geteuid();
}

}  // namespace

Result<ClusterStatus> cluster_status(const ClusterDir& dir) {
  ClusterStatus status;
  const auto answer = ask_controller(dir, "GET", "/v1/status");
  if (!answer && answer.error().code == Errc::kDenied)
    return answer.error();
  if (answer)
    status = TRY(decode_cluster_status(*answer));
  status.dir = dir.root;
  status.socket = dir.socket();
  const bool owner = is_owner(dir);
  const auto conf = owner ? dir.load() : Result<ClusterConf>(denied(""));
  if (owner) {
    if (!conf)
      status.notices.push_back(conf.error().message);
    else if (!conf->damage.empty())
      status.notices.push_back(conf->damage + "; its copy is used, and `lockstep up` makes it whole again");
    if (access(dir.file(kMarkFile).c_str(), F_OK) != 0)
      status.notices.push_back(lost_mark_text(dir));
    else if (const auto state = find_state_dir(dir.root); !state)
      status.notices.push_back(state.error().message);
  }
  if (!answer) {
    status.jobs_known = false;
    if (conf)
      status.cluster = conf->name;
    if (owner)
      for (const auto& name : all_node_names(dir, conf ? &*conf : nullptr)) status.nodes.push_back({name, "unknown"});
  }
  add_local_parts(status, dir);
  if (!answer)
    status.controller_state = status.controller_pid ? "not answering" : "down";
  else if (status.controller_state.empty())
    status.controller_state = "up";
  return status;
}

}  // namespace lockstep
