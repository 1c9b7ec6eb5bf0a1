#include "cli/installed_node.h"

#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/installed.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "cli/cluster_dir.h"
#include "cli/listen.h"
#include "cli/local_cluster.h"
#include "cli/units.h"
#include "io/client/unix_api_client.h"
#include "io/local/daemon.h"
#include "io/local/folder.h"
#include "io/local/node_init.h"
#include "io/local/restarts.h"
#include "io/local/state_dir.h"
#include "io/local/supervisor.h"

namespace lockstep {

namespace {

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

constexpr Duration kNotePatience = seconds(10);  // until a supervisor has written down that it is there

// The agent of a machine without systemd, as its supervisor has it.
Supervised supervised_agent() {
  const InstalledPaths at = installed_paths();
  Supervised what;
  what.cluster_id = "node in " + at.node_dir;
  what.note_path = at.node_dir + "/" + kAgentNoteFile;
  what.log_path = at.node_dir + "/log";
  what.argv = {program_dir() + "/lockstep-agent", "--settings", at.agent_settings};
  return what;
}

std::optional<OwnProcess> supervisor() {
  const Supervised what = supervised_agent();
  const auto note = read_run_note(what.note_path);
  return note && note->supervisor ? own_process(*note->supervisor, what.cluster_id) : std::nullopt;
}

Result<void> start_under_supervisor() {
  if (const auto running = supervisor()) {
    running->signal(SIGHUP);  // an agent that keeps ending is tried again at once
    return {};
  }
  TRY(Folder::make(installed_paths().node_dir, pass_through_mode()));
  const Supervised what = supervised_agent();
  TRY(RunNoteFile::open(what.note_path));
  TRY(start_supervisor(what));
  for (const Instant until = boot_now() + kNotePatience; !supervisor(); usleep(5'000))
    if (boot_now() >= until)
      return Error{Errc::kTimeout, format("the agent's supervisor does not begin; its log: {}", what.log_path), {}};
  return {};
}

Result<void> stop_supervised() {
  const Supervised what = supervised_agent();
  const auto note = read_run_note(what.note_path);
  if (!note)
    return {};
  for (const auto& noted : {note->supervisor, note->process}) {
    const auto process = noted ? own_process(*noted, what.cluster_id) : std::nullopt;
    if (process && !end_and_tell(*process, seconds(20), "the agent"))
      return Error{Errc::kTimeout, format("process {} does not end", noted->pid), {}};
  }
  unlink(what.note_path.c_str());
  return {};
}

Result<void> remove_by(const std::vector<std::string>& words) {
  const Ran ran = TRY(run_and_hear(words));
  return ran.code == 0 ? Result<void>() : Error{Errc::kIo, std::string(trim(ran.err)), {}};
}

// One answer of the controller through the agent.
Result<Ping> ask_through_agent() {
  const auto client = TRY(connect_unix(installed_paths().agent_socket));
  const auto reply = TRY(client->call("GET", "/v1/ping", "", seconds(10)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return decode_ping(reply.body);
}

// Why the agent is not there, as far as this machine knows.
std::string agent_trouble() {
  if (has_systemd()) {
    const auto state = unit_state(kAgentUnit);
    const std::string said = last_words(kAgentUnit);
    return format("{} is {}{}{}", kAgentUnit, state && !state->active.empty() ? state->active : "not known to systemd",
                  said.empty() ? "" : ". It said last:\n", trim(said));
  }
  const auto note = read_run_note(supervised_agent().note_path);
  if (note && !note->ended.empty() && !note->process)
    return "the agent ended: " + note->ended;
  return "the agent runs and is not connected";
}

// How often it ended and was started again.
std::uint32_t agent_ends() {
  if (has_systemd()) {
    const auto state = unit_state(kAgentUnit);
    return state ? state->restarts : 0;
  }
  const auto note = read_run_note(supervised_agent().note_path);
  return note ? note->ends : 0;
}

}  // namespace

std::string host_name() {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  const std::string name(host);
  return name.substr(0, name.find('.'));
}

AgentFile new_agent_file(const std::string& node, const std::string& controller_host, std::uint16_t controller_port) {
  const InstalledPaths at = installed_paths();
  AgentFile file;
  file.node = node;
  file.controller_host = controller_host;
  file.controller_port = controller_port;
  file.ca = at.pki_dir + "/ca.crt";
  file.certificate = at.pki_dir + "/node.crt";
  file.key = at.pki_dir + "/node.key";
  file.state_dir = at.node_dir;
  file.run_dir = at.agent_run_dir;
  file.socket = at.agent_socket;
  file.boot_id_file = at.agent_run_dir + "/" + kBootIdFile;
  file.peer_port = kPeerPort;
  return file;
}

Result<AgentFile> read_agent_file() {
  const std::string path = installed_paths().agent_settings;
  const std::string text = TRY(read_plain(path, Links::kFollowed));
  auto file = decode_agent_file(text);
  if (!file)
    return Error{file.error().code, format("{}: {}", path, file.error().message), {}};
  return file;
}

Result<void> write_agent_file(const AgentFile& file) {
  const std::string path = installed_paths().agent_settings;
  return TRY(Folder::make(folder_of(path), 0755)).write_durably(name_of(path), encode(file), 0600);
}

Result<void> join_with_token(AgentFile& file, const std::string& token) {
  const Ran ran = TRY(run_and_hear({program_dir() + "/lockstep-agent", "join", "--controller",
                                    host_and_port(file.controller_host, file.controller_port), "--node", file.node,
                                    "--pki", folder_of(file.key), "--token", "-"},
                                   token + "\n"));
  constexpr std::string_view kPrefix = "lockstep node join: ";
  std::string_view said = trim(ran.err);
  if (said.starts_with(kPrefix))
    said.remove_prefix(kPrefix.size());
  if (ran.code != 0)
    return Error{Errc::kDenied, std::string(said), {}};
  for (const auto& line : split(ran.out, '\n')) {
    if (line.starts_with(kGivenAddress))
      file.address = line.substr(kGivenAddress.size());
    if (line.starts_with(kGivenRange))
      file.task_range = line.substr(kGivenRange.size());
  }
  return {};
}

bool is_own_node(const AgentFile& file) {
  const auto theirs = read_plain(file.ca, Links::kRefused);
  const auto ours = read_plain(installed_paths().controller_dir + "/public/ca.pem", Links::kRefused);
  return theirs && ours && *theirs == *ours;
}

Result<void> remove_node_files() {
  const InstalledPaths at = installed_paths();
  // The settings first: without them nothing starts again, wherever this is interrupted.
  for (const std::string& path : {at.agent_settings, at.pki_dir, at.node_dir})
    TRY(remove_by({"rm", "-rf", "--one-file-system", "--", path}));
  if (access(at.agent_run_dir.c_str(), F_OK) != 0)
    return {};
  umount2((at.agent_run_dir + "/places").c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);  // namespaces of jobs were kept there
  return remove_by({"find", at.agent_run_dir, "-xdev", "-mindepth", "1", "-delete"});  // it may be a mount point
}

Result<void> start_agent() { return has_systemd() ? enable_and_start(kAgentUnit) : start_under_supervisor(); }

Result<void> restart_agent() {
  if (has_systemd())
    return restart_unit(kAgentUnit);
  TRY(stop_supervised());
  return start_under_supervisor();
}

Result<void> stop_agent() { return has_systemd() ? disable_and_stop(kAgentUnit) : stop_supervised(); }

bool agent_runs() {
  if (!has_systemd())
    return supervisor().has_value();
  const auto state = unit_state(kAgentUnit);
  return state && state->pid > 0;
}

std::string agent_log_hint() {
  return has_systemd() ? format("journalctl -u {}", kAgentUnit) : supervised_agent().log_path;
}

bool is_usable_state(const std::string& state) { return !state.empty() && state != "down" && state != "unknown"; }

Result<Ping> wait_for_node(Duration patience) {
  constexpr std::uint32_t kEndsMost = 3;
  const std::uint32_t ends_before = agent_ends();
  std::string why;
  for (const Instant until = boot_now() + patience; boot_now() < until; usleep(50'000)) {
    const auto ping = ask_through_agent();
    if (ping && is_usable_state(ping->node_state))
      return *ping;
    why = ping ? format("the controller says that it is {}{}", ping->node_state.empty() ? "unknown" : ping->node_state,
                        ping->node_reason.empty() ? "" : ": " + ping->node_reason)
               : ping.error().message;
    if (!ping && agent_ends() >= ends_before + kEndsMost)
      break;  // of one that comes and goes nobody need wait for the next
  }
  return Error{Errc::kTimeout,
               format("this machine is no usable node: {}.\n{}\nIts log: {}", why, agent_trouble(), agent_log_hint()),
               {}};
}

std::string offer_text(const Ping& ping) {
  const std::string gpus = ping.gpus == 0 ? "no GPUs" : format("{} x {}", ping.gpus, ping.gpu_type);
  const std::string memory =
      ping.memory_mb < 10 * 1024 ? format("{} MiB", ping.memory_mb) : format("{} GiB", ping.memory_mb / 1024);
  std::string out = format("{} cores, {} of memory, {}; state {}", ping.cores, memory, gpus, ping.node_state);
  if (!ping.node_reason.empty())
    out += format(" ({})", ping.node_reason);
  return out;
}

}  // namespace lockstep
