// What the doctor looks at of the machine: GPUs, units, the kernel, clocks, and an agent with its way to the
// controller.
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/installed.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "cli/doctor.h"
#include "cli/listen.h"
#include "cli/units.h"
#include "io/client/unix_api_client.h"
#include "io/local/cgroup_host.h"
#include "wire/api.h"

extern char** environ;

namespace lockstep {

namespace {

std::string text_of_file(const std::string& path) {
  const auto text = read_plain(path, Links::kFollowed);
  return text ? *text : "";
}

std::optional<std::uint64_t> number_in_file(const std::string& path) { return parse_uint(trim(text_of_file(path))); }

std::vector<std::string> names_below(const std::string& path) {
  std::vector<std::string> out;
  DIR* const dir = opendir(path.c_str());
  while (const dirent* entry = dir ? readdir(dir) : nullptr)
    if (entry->d_name[0] != '.')
      out.emplace_back(entry->d_name);
  if (dir)
    closedir(dir);
  return out;
}

// --- GPUs ---

constexpr const char* kDriver = "/proc/driver/nvidia/gpus";
constexpr const char* kNvmlPlaces[] = {"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1",
                                       "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1", "/usr/lib/libnvidia-ml.so.1",
                                       "/usr/local/nvidia/lib64/libnvidia-ml.so.1"};

bool has_nvml() {
  if (std::any_of(std::begin(kNvmlPlaces), std::end(kNvmlPlaces),
                  [](const char* path) { return access(path, R_OK) == 0; }))
    return true;
  const auto listed = output_of({"ldconfig", "-p"});
  return listed && listed->find("libnvidia-ml.so.1") != std::string::npos;
}

const Node* record_of(const Patient& patient, const std::string& name) {
  for (const auto& node : patient.nodes)
    if (node->meta.name == name)
      return node.get();
  return nullptr;
}

// Simulated ones, which `lockstep up` was asked for.
void look_at_simulated(const Patient& patient, const NodeHere& node, const Node* record, Diagnosis& report) {
  const auto wanted = patient.conf ? parse_gpus(patient.conf->gpus) : Result<GpuSpec>(GpuSpec{});
  if (!wanted || wanted->count == 0)
    return;
  if (const std::string nvml = stand_in_nvml(); access(nvml.c_str(), R_OK) != 0)
    report.error(nvml, "the library that stands in for NVIDIA's on virtual nodes is missing", "keep lib/ beside bin/");
  if (record && record->devices.size() < wanted->count)
    report.error(
        node.file.node, format("it offers {} of {} GPUs", record->devices.size(), wanted->count),
        format("see {}/gpus and {}/log", patient.dir.node_dir(node.file.node), patient.dir.node_dir(node.file.node)));
}

void look_at_gpus(const Patient& patient, const NodeHere& node, Diagnosis& report) {
  const Node* const record = record_of(patient, node.file.node);
  if (node.is_virtual())
    return look_at_simulated(patient, node, record, report);
  const std::size_t present = names_below(kDriver).size();
  if (present == 0) {
    const bool has_devices = access("/dev/nvidiactl", F_OK) == 0;
    if (has_devices)
      report.warning("", "/dev/nvidiactl is there, and the driver shows no GPU", "nvidia-smi; dmesg | grep -i nvrm");
    return;
  }
  if (!has_nvml())
    report.error("libnvidia-ml.so.1",
                 format("the driver shows {} GPUs, and NVML, by which they are found, is not installed", present),
                 "install libnvidia-ml1 (or the driver's own libraries), then restart the agent");
  if (record && record->devices.size() < present)
    report.error(node.file.node,
                 format("the driver shows {} GPUs, and the node offers {}", present, record->devices.size()),
                 "nvidia-smi -L; then restart the agent (jobs go on): systemctl restart lockstep-agent");
}

// --- units ---

std::map<std::string, std::string> properties_of(const char* unit) {
  std::map<std::string, std::string> out;
  const auto text =
      output_of({"systemctl", "show", unit, "-p", "LoadState,ActiveState,UnitFileState,KillMode,NRestarts"});
  for (const auto& line : split(text ? *text : "", '\n'))
    if (const auto equals = line.find('='); equals != std::string::npos)
      out[line.substr(0, equals)] = line.substr(equals + 1);
  return out;
}

void look_at_unit(const char* unit, bool jobs_outlive_it, Diagnosis& report) {
  auto is = properties_of(unit);
  if (is.empty())
    return report.unknown(unit, "systemctl does not answer");
  if (is["LoadState"] == "masked")
    return report.error(unit, "the unit is masked", format("systemctl unmask {0}; systemctl enable --now {0}", unit));
  if (is["LoadState"] != "loaded")
    return report.error(unit, format("the unit is {}", is["LoadState"]), "install the package again");
  if (is["ActiveState"] != "active")
    report.error(unit, format("it is {}; it said last: {}", is["ActiveState"], last_line(unit)),
                 format("systemctl start {0}; journalctl -u {0}", unit));
  if (is["UnitFileState"] != "enabled" && is["UnitFileState"] != "static")
    report.warning(unit, "it is not started when the machine boots", format("systemctl enable {}", unit));
  if (jobs_outlive_it && is["KillMode"] != "process")
    report.error(unit, format("KillMode={}: its jobs end with it", is["KillMode"]),
                 format("systemctl edit {}: [Service] KillMode=process", unit));
  if (const auto restarts = parse_uint(is["NRestarts"]); restarts && *restarts > 0)
    report.warning(unit, format("systemd has started it again {} time(s)", *restarts),
                   format("journalctl -u {}", unit));
}

void look_at_controllers_unit(const Patient& patient, Diagnosis& report) {
  if (patient.is_installed)
    look_at_unit(kControllerUnit, false, report);
}

void look_at_agents_unit(const Patient&, const NodeHere& node, Diagnosis& report) {
  if (node.settings == installed_paths().agent_settings)
    look_at_unit(kAgentUnit, true, report);
}

// --- kernel ---

struct Setting {
  const char* path;
  std::uint64_t least;
  const char* why;
  const char* name;
};
constexpr Setting kSettings[] = {
    {"/proc/sys/kernel/pid_max", 32'768, "many steps need many processes", "kernel.pid_max"},
    {"/proc/sys/kernel/threads-max", 16'384, "many steps need many threads", "kernel.threads-max"},
    {"/proc/sys/fs/file-max", 65'536, "connections are open files", "fs.file-max"},
    {"/proc/sys/net/core/somaxconn", 128, "many clients connect at once", "net.core.somaxconn"},
};

void look_at_settings(Diagnosis& report) {
  for (const Setting& one : kSettings)
    if (const auto value = number_in_file(one.path); value && *value < one.least)
      report.warning(one.name, format("it is {}, and {} or more is wanted: {}", *value, one.least, one.why),
                     format("sysctl -w {}={}", one.name, one.least));
}

std::optional<std::uint64_t> open_files_of(pid_t pid) {
  constexpr std::string_view kName = "Max open files";
  for (const auto& line : split(text_of_file(format("/proc/{}/limits", pid)), '\n'))
    if (line.starts_with(kName)) {
      const auto words = split_words(std::string_view(line).substr(kName.size()));
      return words.empty() || words[0] == "unlimited" ? std::nullopt : parse_uint(words[0]);
    }
  return std::nullopt;
}

void look_at_kernel(const Patient& patient, Diagnosis& report) {
  constexpr std::uint64_t kFiles = 4'096;
  look_at_settings(report);
  const pid_t pid = patient.status ? patient.status->controller_pid : 0;
  if (const auto files = pid ? open_files_of(pid) : std::nullopt; files && *files < kFiles)
    report.warning(format("process {}", pid),
                   format("the controller may open {} files, and each client is one", *files),
                   patient.is_installed ? "systemctl edit lockstepd: [Service] LimitNOFILE=1048576"
                                        : "raise the hard limit (ulimit -Hn) of who runs lockstep up");
}

void look_at_kernel_of_node(const Patient& patient, const NodeHere& node, Diagnosis& report) {
  if (node.is_virtual())
    return;
  if (!patient.has_controller)
    look_at_settings(report);
  if (split(trim(text_of_file("/proc/swaps")), '\n').size() > 1)
    report.note("/proc/swaps", "the machine swaps: a job that takes too much memory makes all others slow",
                "swapoff -a");
  if (const auto host = this_cgroup_host(); !host.ok())
    report.warning("/sys/fs/cgroup", "jobs are not held to their memory and processes: " + host.error().message,
                   "boot with systemd.unified_cgroup_hierarchy=1");
}

// --- clock ---

bool is_synchronised() {
  timex clock{};
  const int state = adjtimex(&clock);
  return state != -1 && state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
}

std::string zone_of(pid_t pid) {
  for (const auto& variable : split(text_of_file(format("/proc/{}/environ", pid)), '\0'))
    if (variable.starts_with("TZ="))
      return variable.substr(3);
  return {};
}

void look_at_zone(const Patient& patient, Diagnosis& report) {
  const pid_t pid = patient.may_look && patient.status ? patient.status->controller_pid : 0;
  const char* const ours = getenv("TZ");
  if (const std::string theirs = pid ? zone_of(pid) : ""; pid && theirs != (ours ? ours : ""))
    report.note(format("process {}", pid),
                format("the controller's time zone is {}, this shell's {}: times in its lists are in the controller's",
                       theirs.empty() ? "the machine's" : theirs, ours ? ours : "the machine's"));
}

// Nodes of this machine have its clock, virtual ones too.
void look_at_clock(const Patient& patient, Diagnosis& report) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::vector<std::string> elsewhere;
  for (const auto& node : patient.nodes)
    if (!node->has_fence_hook && node->hostname != host && !patient.is_quiet)
      elsewhere.push_back(node->meta.name);
  if (!elsewhere.empty() && !is_synchronised())
    report.warning("", "this machine's clock follows no other, and the nodes have clocks of their own",
                   "timedatectl set-ntp true, or install chrony");
  if (!elsewhere.empty())
    report.unknown(elsewhere.size() == 1 ? elsewhere[0] : format("{} nodes", elsewhere.size()),
                   "how far their clocks are off is seen there only: run lockstep doctor on them");
  look_at_zone(patient, report);
}

// Through the agent to the controller: both that it can be reached, and what its clock says.
Result<Ping> ping_through(const std::string& socket, Duration& took) {
  const auto client = TRY(connect_unix(socket));
  const Instant begin = boot_now();
  const auto reply = TRY(client->call("GET", "/v1/ping", "", seconds(2)));
  took = boot_now() - begin;
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return decode_ping(reply.body);
}

void look_at_clock_of_node(const Patient& patient, const NodeHere& node, Diagnosis& report) {
  if (node.is_virtual())
    return;
  Duration took;
  const auto ping = ping_through(node.file.socket, took);
  if (!ping || ping->wall_us == 0)
    return report.unknown(node.file.node, "how far its clock is off: the controller does not answer through its agent");
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  const Duration off{t.tv_sec * 1'000'000 + t.tv_nsec / 1'000 - took.us / 2 - ping->wall_us};
  constexpr Duration kMuch = seconds(60), kSome = seconds(2);
  const Duration apart = off < Duration{} ? Duration{-off.us} : off;
  if (!patient.has_controller && !is_synchronised())
    report.warning(node.file.node, "this machine's clock follows no other, and the controller has one of its own",
                   "timedatectl set-ntp true, or install chrony");
  const std::string text =
      format("its clock is {} s {} the controller's", apart.seconds(), off < Duration{} ? "behind" : "ahead of");
  if (apart > kMuch)
    report.error(node.file.node, text + ": certificates fail by that, and logs lie",
                 "timedatectl set-ntp true, or install chrony, on both machines");
  else if (apart > kSome)
    report.warning(node.file.node, text, "timedatectl set-ntp true, or install chrony, on both machines");
}

// --- agent ---

bool is_locked(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (fd >= 0)
    close(fd);
  return locked;
}

std::string agent_start(const NodeHere& node) {
  return node.file.cluster_dir.empty() ? "systemctl start lockstep-agent; journalctl -u lockstep-agent"
                                       : "lockstep up --dir " + node.file.cluster_dir;
}

std::string log_of(const NodeHere& node) {
  const auto slash = node.settings.rfind('/');
  return node.file.cluster_dir.empty() ? "journalctl -u lockstep-agent" : node.settings.substr(0, slash) + "/log";
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

void look_at_agent(const Patient& patient, const NodeHere& node, Diagnosis& report) {
  const AgentFile& file = node.file;
  if (patient.is_quiet)
    return;
  if (!is_locked(file.state_dir + "/lock"))
    return report.error(file.node,
                        "its agent does not run: the node takes no work, what runs there goes on until its fence",
                        agent_start(node));
  const std::string place = format("{}:{}", file.controller_host, file.controller_port);
  if (!node.is_virtual() && !accepts(file.controller_host, file.controller_port))
    report.error(place, format("node {} cannot connect to its controller there", file.node),
                 format("is the controller up, its name right, the port open? see {}", node.settings));
  if (geteuid() == 0 || access(file.key.c_str(), R_OK) == 0)
    if (const auto checked = run_and_hear({program_dir() + "/lockstep-agent", "check", directory_of(file.certificate)});
        checked && checked->code != 0)
      report.error(file.node, format("its certificate cannot be used: {}", trim(checked->err)),
                   "join again: lockstep node token --help");
  if (node.is_virtual())
    return;
  Duration took;
  if (const auto ping = ping_through(file.socket, took); !ping)
    report.error(file.node,
                 format("nothing comes back from the controller through its agent: {}", ping.error().message),
                 "see the agent's log: " + log_of(node));
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& argv) {
  constexpr int kPatienceMs = 5'000;
  constexpr std::size_t kMost = 1 << 20;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return std::nullopt;
  std::vector<std::string> texts = argv;
  std::vector<char*> words;
  for (auto& text : texts) words.push_back(text.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string out;
  bool in_time = true;
  char piece[4096];
  for (pollfd look{ends[0], POLLIN, 0}; error == 0 && out.size() < kMost;) {
    in_time = poll(&look, 1, kPatienceMs) > 0;
    const ssize_t n = in_time ? read(ends[0], piece, sizeof piece) : 0;
    if (n <= 0)
      break;
    out.append(piece, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  if (error != 0)
    return std::nullopt;
  if (!in_time)
    kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::optional(out) : std::nullopt;
}

// A name is looked up by getent: a static program cannot load what the machine looks names up with.
bool accepts(const std::string& host, std::uint16_t port) {
  constexpr int kPatienceMs = 2'000;
  std::string address = host;
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) != 1 && inet_pton(AF_INET6, host.c_str(), &v6) != 1) {
    const auto found = output_of({"getent", "ahosts", host});
    const auto words = split_words(found ? *found : "");
    if (words.empty())
      return false;
    address = words[0];
  }
  const bool is_v6 = inet_pton(AF_INET6, address.c_str(), &v6) == 1;
  if (!is_v6 && inet_pton(AF_INET, address.c_str(), &v4) != 1)
    return false;
  sockaddr_in at4{};
  at4.sin_family = AF_INET;
  at4.sin_port = htons(port);
  at4.sin_addr = v4;
  sockaddr_in6 at6{};
  at6.sin6_family = AF_INET6;
  at6.sin6_port = htons(port);
  at6.sin6_addr = v6;
  const int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return false;
  const int begun = is_v6 ? connect(fd, reinterpret_cast<const sockaddr*>(&at6), sizeof at6)
                          : connect(fd, reinterpret_cast<const sockaddr*>(&at4), sizeof at4);
  pollfd look{fd, POLLOUT, 0};
  int error = begun == 0 ? 0 : errno;
  socklen_t size = sizeof error;
  if (error == EINPROGRESS &&
      (poll(&look, 1, kPatienceMs) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0))
    error = ETIMEDOUT;
  close(fd);
  return error == 0;
}

namespace {

bool holds(const std::string& pid, const std::vector<std::string>& sockets) {
  const std::string folder = format("/proc/{}/fd", pid);
  for (const auto& fd : names_below(folder)) {
    char target[64];
    const ssize_t n = readlink((folder + "/" + fd).c_str(), target, sizeof target);
    if (n > 0 && std::find(sockets.begin(), sockets.end(), std::string_view(target, static_cast<std::size_t>(n))) !=
                     sockets.end())
      return true;
  }
  return false;
}

}  // namespace

std::string listener_on(const std::string& address, std::uint16_t port) {
  std::vector<std::string> sockets;
  for (const Listener& one : listeners_on(port))
    if (collide(address, one.address))
      sockets.push_back(format("socket:[{}]", one.inode));
  if (sockets.empty())
    return {};
  for (const auto& pid : names_below("/proc"))
    if (parse_uint(pid) && holds(pid, sockets))
      return format("{} (process {})", trim(text_of_file(format("/proc/{}/comm", pid))), pid);
  return "a process of somebody else";
}

constexpr Check kGpusCheck{"gpus", "driver and NVML, and whether nodes offer every GPU that is there", nullptr,
                           look_at_gpus};
constexpr Check kUnitsCheck{"units", "systemd's units of an installed cluster: active, enabled, not started again",
                            look_at_controllers_unit, look_at_agents_unit};
constexpr Check kKernelCheck{"kernel", "limits of the kernel and of the controller, swap, cgroups", look_at_kernel,
                             look_at_kernel_of_node};
constexpr Check kClockCheck{"clock", "clocks that follow a server and agree, the time zone", look_at_clock,
                            look_at_clock_of_node};
constexpr Check kAgentCheck{"agent", "whether agents run, reach the controller, and have a certificate that it takes",
                            nullptr, look_at_agent};

}  // namespace lockstep
