// How an embedded cluster fares: what its controller says, what the notes in its directory say, and what of the
// directory cannot be read.
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/installed_cluster.h"
#include "cli/local_cluster.h"
#include "io/local/folder.h"
#include "io/local/node_init.h"
#include "io/local/restarts.h"
#include "io/local/start_note.h"
#include "io/local/state_dir.h"

namespace lockstep {

namespace {

// An orderly end leaves nothing of this.
bool is_failed_start(const RunNote& note) { return !note.supervisor && !note.process && note.ended_by_itself; }

void add_controller_note(ClusterStatus& status, const ClusterDir& dir, const RunNote& note) {
  const auto running = [](const std::optional<ProcessId>& process) {
    return process && alive(*process) ? process->pid : 0;
  };
  status.controller_pid = running(note.process);
  status.supervisor_pid = running(note.supervisor);
  status.supervisor_unknown = false;
  status.last_end = note.ended;
  status.last_end_at_s = note.ended_at_s;
  if (is_failed_start(note))
    return status.notices.push_back(failed_start_text(dir, note));
  status.ends = note.ends;
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

// Of a node of this directory whose first process is not at work; "" = it is.
std::string first_process_text(const ClusterDir& dir, const NodeStatus& node) {
  const std::string file = dir.node_dir(node.name) + "/agent.json";
  if (access(file.c_str(), F_OK) != 0)
    return {};  // it runs elsewhere
  if (access(file.c_str(), R_OK) != 0)
    return {};  // these notes are not for our eyes, which says nothing of the node
  const std::string note = dir.node_dir(node.name) + "/" + kInitPidFile;
  if (node.pid == 0 && !read_pid_file(note))
    return format("{} cannot be read, so that it is not known whether node {} runs; `lockstep up` sees to it", note,
                  node.name);
  if (node.pid == 0)
    return format("the first process of node {} has ended, and nothing runs there; `lockstep up` starts it", node.name);
  if (is_stopped(node.pid))
    return format("the first process of node {0} (process {1}) is stopped; `kill -CONT {1}` lets it go on", node.name,
                  node.pid);
  return {};
}

// Of a node that runs, and cannot connect anew.
std::string certificate_text(const ClusterDir& dir, const NodeStatus& node) {
  if (node.pid == 0 || has_certificate(dir, node.name))
    return {};
  return format(
      "node {0} runs without a certificate of this cluster's CA, so that its agent cannot connect anew: "
      "{1}/pki lacks files, or holds those of another CA. Put them back, or `lockstep down --dir {2}` and "
      "`lockstep up --dir {2}` give it new ones",
      node.name, dir.node_dir(node.name), dir.root);
}

// The CA is what every certificate hangs on.
std::string authority_text(const ClusterDir& dir) {
  const bool has_run = access(dir.file("lockstep.db").c_str(), F_OK) == 0;
  if (!has_run || access(dir.file("pki/ca.pem").c_str(), F_OK) == 0)
    return {};
  return format(
      "{0}/pki/ca.pem is missing: the controller makes a new CA when it starts next, and no node has a "
      "certificate of that. Put {0}/pki back from a backup; or `lockstep down --dir {0}` and `lockstep up "
      "--dir {0}` give the nodes of this machine new certificates, and other machines join again",
      dir.root);
}

void add_node_notes(NodeStatus& node, const ClusterDir& dir) {
  if (const auto process = node_process(dir, node.name)) {
    node.pid = process->pid;
    node.agent_pid = agent_of(*process);
  }
  if (const auto note = read_run_note(dir.node_dir(node.name) + "/" + kAgentNoteFile)) {
    node.agent_ends = note->ends;
    node.agent_last_end = note->ended;
    node.agent_last_end_at_s = note->ended_at_s;
  }
}

// Only the cluster's owner can read these; others see what the controller says of itself.
void add_local_parts(ClusterStatus& status, const ClusterDir& dir) {
  if (const auto note = settled_note(dir.file(kControllerNoteFile)))
    add_controller_note(status, dir, *note);
  else if (note.error().code == Errc::kCorrupt || note.error().code == Errc::kDenied)
    status.notices.push_back(
        format("{} is damaged: what runs is not known from it. `lockstep down` finds it all the same",
               dir.file(kControllerNoteFile)));
  if (const auto list = read_file(dir.file("applying.list")))
    for (auto& line : split(*list, '\n'))
      if (!line.empty())
        status.quarantined.push_back(std::move(line));
  for (auto& node : status.nodes) {
    add_node_notes(node, dir);
    if (status.controller_pid)  // else all of it may be down, as it was told
      for (auto* text : {first_process_text, certificate_text})
        if (std::string what = text(dir, node); !what.empty())
          status.notices.push_back(std::move(what));
  }
}

std::optional<uid_t> owner_of(const ClusterDir& dir) {
  struct stat found {};
  return stat(dir.root.c_str(), &found) == 0 ? std::optional(found.st_uid) : std::nullopt;
}

// For who may not read why no controller answers, nor start one.
std::string owner_text(const ClusterDir& dir, uid_t owner) {
  return format("only user {0} can see more of {1} and start its controller: ask them for `lockstep up --dir {1}`",
                owner == 0 ? std::string("root") : std::to_string(owner), dir.root);
}

// What only the owner is told: what of the directory is damaged.
void add_damage(ClusterStatus& status, const ClusterDir& dir, const Result<ClusterConf>& conf) {
  if (!conf)
    status.notices.push_back(conf.error().message);
  else if (!conf->damage.empty())
    status.notices.push_back(conf->damage + "; its copy is used, and `lockstep up` makes it whole again");
  if (access(dir.file(kMarkFile).c_str(), F_OK) != 0)
    status.notices.push_back(lost_mark_text(dir));
  else if (const auto state = find_state_dir(dir.root); !state)
    status.notices.push_back(state.error().message);
  if (std::string what = authority_text(dir); !what.empty())
    status.notices.push_back(std::move(what));
}

// How the controller is that gave an error for an answer, or none, with a notice in front that says why.
std::string state_without_answer(ClusterStatus& status, const ClusterDir& dir, const Error& error) {
  // It answers that it cannot write: not even down who is asking, where that is not known yet.
  const bool is_full = error.field == "read-only";
  if (is_full)
    status.notices.insert(status.notices.begin(), "read-only: " + error.message);
  const auto starting = read_start_note(dir.file(kStartNoteFile));
  if (starting) {
    status.controller_pid = starting->process.pid;
    status.notices.insert(status.notices.begin(),
                          format("the controller is starting and answers when it is through: {}", starting->what));
  }
  return is_full ? "read-only" : starting ? "starting" : status.controller_pid ? "not answering" : "down";
}

// What is known of a cluster whose controller says nothing, by whoever asks.
void add_known_parts(ClusterStatus& status, const ClusterDir& dir, std::optional<uid_t> owner,
                     const Result<ClusterConf>& conf) {
  const bool is_owner = owner == geteuid();
  status.jobs_known = false;
  if (conf)
    status.cluster = conf->name;
  else if (!is_owner && owner)
    status.notices.push_back(owner_text(dir, *owner));
  if (is_owner)
    for (const auto& name : all_node_names(dir, conf ? &*conf : nullptr)) status.nodes.push_back({name, "unknown"});
}

}  // namespace

Result<ClusterStatus> cluster_status(const ClusterDir& dir) {
  if (dir.is_installed())
    return installed_status(dir);
  ClusterStatus status;
  const auto answer = ask_controller(dir, "GET", "/v1/status");
  if (!answer && answer.error().code == Errc::kDenied)
    return answer.error();
  if (answer)
    status = TRY(decode_cluster_status(*answer));
  status.dir = dir.root;
  status.socket = dir.socket();
  const auto owner = owner_of(dir);
  const bool is_owner = owner == geteuid();
  const auto conf = is_owner ? dir.load() : Result<ClusterConf>(denied(""));
  if (is_owner)
    add_damage(status, dir, conf);
  if (!answer)
    add_known_parts(status, dir, owner, conf);
  add_local_parts(status, dir);
  if (!answer)
    status.controller_state = state_without_answer(status, dir, answer.error());
  else if (status.controller_state.empty())
    status.controller_state = "up";
  CHECK(!status.controller_state.empty());
  return status;
}

}  // namespace lockstep
