#include "cli/vm_nodes.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

extern "C" {  // glibc 2.36 forgot to say so itself
#include <sys/pidfd.h>
}

#include <algorithm>
#include <thread>

#include "base/text.h"
#include "cli/local_cluster.h"
#include "io/local/folder.h"
#include "io/local/process.h"
#include "io/local/virtual_network.h"
#include "wire/api.h"

namespace lockstep {

namespace {

constexpr const char* kArchive = "programs.tar";
constexpr const char* kProcessNote = "process";
constexpr std::uint32_t kCpus = 2;
constexpr std::int64_t kMemoryMb = 1024;
constexpr Duration kOffPatience = seconds(10);

// Beside the build that this program belongs to, else where the packages put it. "" = neither.
std::string vm_script() {
  for (const char* place : {"/../../../scripts/vm", "/../vm"})
    if (const std::string path = program_dir() + place; access(path.c_str(), X_OK) == 0)
      return path;
  return {};
}

std::string guests_folder(const ClusterDir& dir) { return absolute_path(dir.file("vms")); }

std::vector<std::string> script_words(const ClusterDir& dir, std::initializer_list<std::string> words) {
  std::vector<std::string> all{"env", "LOCKSTEP_VM_GUESTS=" + guests_folder(dir), vm_script()};
  all.insert(all.end(), words);
  return all;
}

// The script says on stderr what a user can do about its failure; the words of its call add nothing to that.
Result<std::string> ask_script(const ClusterDir& dir, std::initializer_list<std::string> words,
                               const std::string& input = {}) {
  const Ran ran = TRY(run_and_hear(script_words(dir, words), input));
  if (ran.code == 0)
    return ran.out;
  return Error{Errc::kIo, std::string(trim(ran.err.empty() ? ran.out : ran.err)), {}};
}

// Also of one whose name no settings know, after damage.
std::vector<std::string> guests_with_folders(const ClusterDir& dir) {
  std::vector<std::string> names;
  const auto folder = Folder::open(guests_folder(dir));
  const auto found = folder ? folder->names() : Result<std::vector<std::string>>(folder.error());
  for (const auto& name : found ? *found : std::vector<std::string>())
    if (access((guests_folder(dir) + "/" + name + "/disk.qcow2").c_str(), F_OK) == 0)
      names.push_back(name);
  return names;
}

// What the guest needs to find the others by name, and to be a node. The archive is unpacked once for each state of it.
// The token stands in the script's own text, which no process list shows.
std::string setup_script(const ClusterConf& conf, const std::string& name, const std::string& hosts,
                         const std::string& archive_note, const std::string& token) {
  return format(R"sh(set -e
cat > /etc/hosts << 'END'
{0}END
if [ "$(cat /etc/lockstep/programs 2> /dev/null)" != '{1}' ]; then
  tar -xf /dev/vdb -C /
  mkdir -p /etc/lockstep /var/lib/lockstep
  for command in sbatch srun salloc scancel squeue sinfo scontrol sacct sacctmgr sshare sprio sbcast seff sstat sattach enroot; do
    ln -sf lockstep /usr/lib/lockstep/bin/$command
    ln -sf ../lib/lockstep/bin/lockstep /usr/bin/$command
  done
  ln -sf ../lib/lockstep/bin/lockstep /usr/bin/lockstep
  systemctl daemon-reload
  if systemctl -q is-active lockstep-agent; then systemctl restart lockstep-agent; fi
  echo '{1}' > /etc/lockstep/programs
fi
lockstep node join --controller {2} --token - --name {3} << 'END'
{4}
END
if grep -q '"fence_hook": false' /etc/lockstep/agent.json; then
  sed -i 's|"fence_hook": false|"fence_hook": true|' /etc/lockstep/agent.json
  systemctl restart lockstep-agent
fi
sync
)sh",
                hosts, archive_note, host_and_port(controller_host(conf), conf.port), name, token);
}

std::string hosts_text(const ClusterConf& conf) {
  std::string hosts = format("127.0.0.1 localhost\n{} controller\n", conf.network.host_address());
  for (std::uint32_t i = 0; i < conf.nodes; ++i) hosts += format("{} n{}\n", conf.network.node_address(i), i + 1);
  const auto names = vm_names(conf);
  for (std::uint32_t i = 0; i < names.size(); ++i)
    hosts += format("{} {}\n", conf.network.node_address(conf.nodes + i), names[i]);
  return hosts;
}

Result<std::string> token_for(const ClusterDir& dir, const std::string& name) {
  TokenRequest ask;
  ask.node = name;
  ask.ttl_s = 600;
  ask.replace = true;
  return decode_token_answer(TRY(ask_controller(dir, "POST", "/v1/tokens", encode(ask))));
}

bool is_usable(const ClusterDir& dir, const std::string& name) {
  const auto status = cluster_status(dir);
  return status && std::any_of(status->nodes.begin(), status->nodes.end(), [&](const NodeStatus& node) {
           return node.name == name && node.state != "down" && node.state != "unknown";
         });
}

// A guest that joined before is looked for by the agent's word on a new boot, which its `node join` waits for.
Result<void> make_node(const ClusterDir& dir, const ClusterConf& conf, const std::string& name,
                       const std::string& archive_note) {
  TRY(ask_script(dir, {"start", name}));  // it was started: until it answers
  const std::string token = TRY(token_for(dir, name));
  TRY(ask_script(dir, {"ssh", name, "sh -s"}, setup_script(conf, name, hosts_text(conf), archive_note, token)));
  return {};
}

Result<void> boot(const ClusterDir& dir, const ClusterConf& conf, const std::string& name, std::uint32_t index) {
  const std::string cable = TRY(plug_in_machine(conf.network, dir.id, index));
  TRY(ask_script(
      dir, {"start", name, "--no-wait", "-m", std::to_string(conf.vm_memory_mb ? conf.vm_memory_mb : kMemoryMb), "-c",
            std::to_string(conf.vm_cpus ? conf.vm_cpus : kCpus), "--cable", cable, "--address",
            format("{}/{}", conf.network.node_address(index), VirtualNetwork::kPrefix), "--disk",
            guests_folder(dir) + "/" + kArchive}));
  // By this note the controller proves later that the machine is off, and that nothing of it runs (lockstepd/fence).
  if (const auto process = identify(vm_process(dir, name)))
    TRY(write_pid_file(guests_folder(dir) + "/" + name + "/" + kProcessNote, *process));
  return {};
}

// Tells two states of the programs apart: the archive's own date says when it was made and nothing of what is in it.
Result<std::string> pack_programs(const ClusterDir& dir) {
  const std::string archive = guests_folder(dir) + "/" + kArchive;
  TRY(ask_script(dir, {"pack", program_dir(), archive}));
  const Ran sum = TRY(run_and_hear({"sha256sum", archive}));
  const auto words = split_words(sum.out);
  if (sum.code != 0 || words.empty())
    return Error{Errc::kIo, std::string(trim(sum.err)), {}};
  return words[0];
}

Result<void> power_off(const ClusterDir& dir, const std::string& name) {
  const pid_t pid = vm_process(dir, name);
  if (pid == 0)
    return {};
  // The descriptor first: what is read after it is about the process that it holds.
  const int fd = pidfd_open(pid, 0);
  if (fd < 0)
    return errno == ESRCH ? Result<void>() : Result<void>(os_error("pidfd_open"));
  const bool is_it = vm_process(dir, name) == pid;
  if (is_it)
    pidfd_send_signal(fd, SIGKILL, nullptr, 0);
  pollfd end{fd, POLLIN, 0};
  const bool has_ended = !is_it || poll(&end, 1, static_cast<int>(kOffPatience.millis())) == 1;
  close(fd);
  if (has_ended)
    return {};
  return Error{Errc::kTimeout, format("the machine {} (process {}) does not end", name, pid), {}};
}

}  // namespace

std::vector<std::string> vm_names(const ClusterConf& conf) {
  std::vector<std::string> names;
  for (std::uint32_t i = 1; i <= conf.vms; ++i) names.push_back(format("vm{}", i));
  return names;
}

Result<void> check_vms_possible() {
  if (geteuid() != 0)
    return denied("nodes that are virtual machines need root: a bridge, and interfaces on it");
  if (vm_script().empty())
    return not_found(
        format("virtual machines are made by scripts/vm of the source tree, or /usr/lib/lockstep/vm of "
               "the package lockstep-client, and neither belongs to {}/lockstep",
               program_dir()));
  return {};
}

pid_t vm_process(const ClusterDir& dir, const std::string& name) {
  const std::string folder = guests_folder(dir) + "/" + name;
  const auto noted = read_file(folder + "/pid");
  const auto pid = noted ? parse_uint(trim(*noted)) : std::nullopt;
  const auto words = pid ? read_file(format("/proc/{}/cmdline", *pid)) : Result<std::string>(not_found(""));
  // A number that another process has by now does not name our files.
  return words && words->find(folder + "/disk.qcow2") != words->npos ? static_cast<pid_t>(*pid) : 0;
}

Result<std::size_t> start_vms(const ClusterDir& dir, const ClusterConf& conf) {
  const auto names = vm_names(conf);
  std::vector<std::string> booted, others;
  for (const auto& name : names)
    if (vm_process(dir, name) == 0)
      booted.push_back(name);
    else if (!is_usable(dir, name))
      others.push_back(name);
  if (booted.empty() && others.empty())
    return 0;
  TRY(check_vms_possible());
  TRY(TRY(Folder::open(dir.root)).folder("vms", 0700));
  // The first time it makes the guests' disk, with words of its own on what takes minutes.
  TRY(run_program({vm_script(), "build", "--quiet"}));
  const std::string archive_note = TRY(pack_programs(dir));
  for (std::uint32_t i = 0; i < names.size(); ++i)
    if (std::find(booted.begin(), booted.end(), names[i]) != booted.end())
      TRY(boot(dir, conf, names[i], conf.nodes + i));
  if (!booted.empty())
    fprintf(stderr, "booting %s: half a minute where the processor is emulated, a few seconds else …\n",
            join(booted, " ").c_str());
  others.insert(others.end(), booted.begin(), booted.end());
  // Side by side: emulated machines are slow, and each mostly waits for its own processor.
  std::vector<Result<void>> done(others.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < others.size(); ++i)
      threads.emplace_back([&, i] { done[i] = make_node(dir, conf, others[i], archive_note); });
  }
  std::vector<std::string> failed;
  for (std::size_t i = 0; i < others.size(); ++i)
    if (!done[i])
      failed.push_back(format("  {}: {}", others[i], done[i].error().message));
  if (!failed.empty())
    return Error{
        Errc::kIo, format("the controller runs, but not all virtual machines are nodes:\n{}", join(failed, "\n")), {}};
  return booted.size();
}

Result<void> stop_vms(const ClusterDir& dir) {
  for (const auto& name : guests_with_folders(dir)) TRY(power_off(dir, name));
  return {};
}

bool is_machine_fault(std::string_view fault) { return fault == "reboot" || fault == "power-off"; }

Result<void> make_machine_fault(const ClusterDir& dir, const std::string& name, const std::string& fault) {
  const auto guests = guests_with_folders(dir);
  if (std::find(guests.begin(), guests.end(), name) == guests.end())
    return not_found(
        format("{} is no virtual machine of {}: `lockstep up --vm N` makes them, and `lockstep node kill` "
               "pulls the plug of other nodes that it made",
               name, dir.root));
  if (vm_process(dir, name) == 0)
    return conflict(format("{} is off; `lockstep up` starts it", name));
  if (fault == "power-off")
    return power_off(dir, name);
  TRY(check_vms_possible());
  TRY(ask_script(dir, {"reset", name}));
  return {};
}

}  // namespace lockstep
