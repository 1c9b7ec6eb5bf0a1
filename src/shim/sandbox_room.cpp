#include "shim/sandbox_room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "model/work_id.h"
#include "shim/process_tree.h"
#include "shim/task_inheritance.h"
#include "wire/front_end_files.h"
#include "wire/sandbox_paths.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

constexpr const char* kGroupMount = "/sys/fs/cgroup";
gid_t group_to_give = 0;  // of the walk that gives files to a group: nftw hands nothing on
constexpr std::size_t kNamesFileMax = 1 << 20;
// Of the kernel's settings those that belong to the sandbox's own namespaces; all others are the node's.
constexpr std::string_view kOwnSettings[] = {"net.", "kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."};

Result<void> make_path(const std::string& path, mode_t mode) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), at == path.npos ? mode : 0700) != 0 && errno != EEXIST) {
      struct stat stat {};
      if (at == path.npos || ::stat(part.c_str(), &stat) != 0)
        return os_error(part);
    }
    if (at == path.npos)
      return {};
  }
}

Result<void> put_text(const std::string& path, std::string_view text, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0)
    return os_error(path);
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const Error error = whole ? Error{} : os_error(path);
  ::fchmod(fd, mode);
  ::close(fd);
  return whole ? Result<void>() : Result<void>(error);
}

// The node's mounts, whatever the job has to itself, and what we mount beside them is nobody else's.
Result<void> leave_place_of_job() {
  const int node = ::open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
  if (node >= 0) {
    (void)::setns(node, CLONE_NEWNS);
    ::close(node);
  }
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    return os_error("cannot make a mount namespace for the sandbox");
  return ::chdir("/") == 0 ? Result<void>() : Result<void>(os_error("/"));
}

Result<void> mount_memory(const std::string& path, const std::string& options) {
  while (::umount2(path.c_str(), MNT_DETACH) == 0) {}
  if (::mount("tmpfs", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    return os_error(format("cannot mount memory on {}", path));
  return {};
}

bool is_of_type(const std::string& type, mode_t mode) {
  if (type == "Directory" || type == "DirectoryOrCreate" || type == kLastingVolume)
    return S_ISDIR(mode);
  if (type == "File" || type == "FileOrCreate")
    return S_ISREG(mode);
  if (type == "Socket")
    return S_ISSOCK(mode);
  if (type == "CharDevice")
    return S_ISCHR(mode);
  return type != "BlockDevice" || S_ISBLK(mode);
}

Result<void> settle_host_volume(const SandboxVolume& volume) {
  struct stat stat {};
  bool there = ::stat(volume.path.c_str(), &stat) == 0;
  if (!there && (volume.path_type == "DirectoryOrCreate" || volume.path_type == kLastingVolume)) {
    TRY(make_path(volume.path, 0755));
    // Whoever its first pod runs as is to write there.
    if (volume.path_type == kLastingVolume)
      ::chmod(volume.path.c_str(), 0777);
  } else if (!there && volume.path_type == "FileOrCreate") {
    TRY(put_text(volume.path, "", 0644));
  } else if (!there && volume.path_type.empty()) {
    TRY(make_path(volume.path, 0755));  // as container runtimes do
  }
  there = ::stat(volume.path.c_str(), &stat) == 0;
  if (there && is_of_type(volume.path_type, stat.st_mode))
    return {};
  return Error{
      Errc::kNotFound, format("hostPath type check failed: {} is not a {}", volume.path, lower(volume.path_type)), {}};
}

// What lies in a volume that outlives its sandboxes is the group's, and so will be what is made there.
// Source: kubernetes.io/docs/tasks/configure-pod-container/security-context (fsGroup).
int give_to_group(const char* path, const struct stat* stat, int kind, FTW*) {
  if (kind == FTW_SL || kind == FTW_NS || stat->st_nlink == 0)
    return 0;
  const bool is_folder = S_ISDIR(stat->st_mode);
  if (::lchown(path, static_cast<uid_t>(-1), group_to_give) != 0)
    return 1;
  if (is_folder || S_ISREG(stat->st_mode))
    return ::chmod(path, (stat->st_mode & 07777) | (is_folder ? 02770 : 0660)) == 0 ? 0 : 1;
  return 0;
}

Result<void> settle_lasting_volume(const SandboxVolume& volume, const Sandbox& sandbox) {
  struct stat stat {};
  if (!sandbox.files_group || ::stat(volume.path.c_str(), &stat) != 0 || !S_ISDIR(stat.st_mode))
    return {};
  if (sandbox.files_group_where_other && stat.st_gid == *sandbox.files_group && (stat.st_mode & S_ISGID) != 0)
    return {};
  group_to_give = *sandbox.files_group;
  constexpr int kDescriptors = 16;
  if (::nftw(volume.path.c_str(), give_to_group, kDescriptors, FTW_PHYS | FTW_MOUNT) != 0)
    return os_error(format("volume {} cannot be given to group {}", volume.name, *sandbox.files_group));
  return {};
}

// By way of the node's own network: the sandbox's begins with us.
Result<void> mount_nfs(const SandboxVolume& volume, const std::string& path) {
  while (::umount2(path.c_str(), MNT_DETACH) == 0) {}
  const char* const helper = "/sbin/mount.nfs";
  constexpr unsigned kNfsSeconds = 20;
  if (volume.path.starts_with('-') || volume.path.find(":/") == std::string::npos)
    return invalid(format("volume {}: \"{}\" names no folder of a server", volume.name, volume.path));
  if (::access(helper, X_OK) != 0)
    return Error{Errc::kUnavailable, format("this node mounts no NFS: {} is in the package nfs-common", helper), {}};
  const pid_t pid = fork_child();
  if (pid == 0) {
    reset_signals();
    ::alarm(kNfsSeconds);  // a server that does not answer holds up nobody for longer
    const int network = ::open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);
    if (network < 0 || ::setns(network, CLONE_NEWNET) != 0)
      ::_exit(1);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {0, 1, 2}) ::dup2(null, fd);
    close_on_exec_from(3);
    ::execl(helper, helper, volume.path.c_str(), path.c_str(), "-o", "nosuid,nodev,soft,timeo=100,retry=0", nullptr);
    ::_exit(127);
  }
  int status = 0;
  while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return {};
  return Error{Errc::kUnavailable, format("mount.nfs {} failed", volume.path), {}};
}

Result<void> mount_huge_pages(const SandboxVolume& volume, const std::string& path) {
  while (::umount2(path.c_str(), MNT_DETACH) == 0) {}
  std::string options = format("mode=1777,pagesize={}", volume.path);
  if (volume.bytes_max > 0)
    options += format(",size={}", volume.bytes_max);
  if (::mount("hugetlbfs", path.c_str(), "hugetlbfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    return os_error(format("volume {}: this node has no pages of {}", volume.name, volume.path));
  return {};
}

Result<void> make_volume(const SandboxVolume& volume, const std::string& folder, const Sandbox& sandbox) {
  using Kind = SandboxVolume::Kind;
  if (volume.kind == Kind::kHost) {
    TRY(settle_host_volume(volume));
    return volume.path_type == kLastingVolume ? settle_lasting_volume(volume, sandbox) : Result<void>();
  }
  const std::string path = format("{}/volumes/{}", folder, volume.name);
  TRY(make_path(path, 0777));
  if (volume.kind == Kind::kNfs)
    return mount_nfs(volume, path);
  if (volume.kind == Kind::kImage)
    return {};  // each of its containers is shown it as it is
  if (volume.kind == Kind::kMemory && !volume.path.empty())
    TRY(mount_huge_pages(volume, path));
  else if (volume.kind == Kind::kMemory) {
    // What lies there counts as its containers' memory: more than they may hold it cannot be.
    const std::uint64_t all = memory_limit_of(sandbox);
    const std::uint64_t bytes =
        volume.bytes_max == 0 || all == 0 ? std::max(volume.bytes_max, all) : std::min(volume.bytes_max, all);
    TRY(mount_memory(path, bytes > 0 ? format("mode=1777,size={}", bytes) : "mode=1777"));
  }
  mode_t mode = volume.kind == Kind::kFiles ? 0755 : volume.kind == Kind::kMemory ? 01777 : 0777;
  if (sandbox.files_group) {
    if (::chown(path.c_str(), static_cast<uid_t>(-1), *sandbox.files_group) != 0)
      return os_error(path);
    mode |= 02070;
  }
  return ::chmod(path.c_str(), mode) == 0 ? Result<void>() : Result<void>(os_error(path));
}

// A word for a file below /proc/sys; nothing that leads elsewhere.
Result<void> set_kernel(const std::string& name, const std::string& value) {
  const bool own = std::any_of(std::begin(kOwnSettings), std::end(kOwnSettings),
                               [&](std::string_view begin) { return name.starts_with(begin); });
  std::string path = name;
  if (path.find('/') == path.npos)
    std::replace(path.begin(), path.end(), '.', '/');
  if (!own || path.find("..") != path.npos)
    return Error{Errc::kDenied, format("{} is no setting that a sandbox has of its own", name), {}};
  path = "/proc/sys/" + path;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return os_error(path);
  const bool good = ::write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  const Error error = good ? Error{} : os_error(path);
  ::close(fd);
  return good ? Result<void>() : Result<void>(error);
}

[[noreturn]] void sleep_as_first_process() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "pause");
  ::signal(SIGCHLD, SIG_IGN);  // whose parents are gone are ours, and nobody waits for them
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  close_on_exec_from(3);
  ::syscall(SYS_close_range, 3, ~0U, 0);
  for (;;) ::pause();
}

// The process number, as we see it, of the first process of a new PID namespace. Its parent is ours.
Result<pid_t> hold_process_space() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return os_error("pipe");
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_NAME, "pause-parent");
    pid_t first = ::unshare(CLONE_NEWPID) == 0 ? ::fork() : -1;
    if (first == 0)
      sleep_as_first_process();
    [[maybe_unused]] const ssize_t told = ::write(ends[1], &first, sizeof first);
    ::syscall(SYS_close_range, 3, ~0U, 0);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  pid_t first = -1;
  const bool told = parent > 0 && ::read(ends[0], &first, sizeof first) == sizeof first && first > 0;
  ::close(ends[0]);
  if (!told)
    return Error{Errc::kIo, "cannot make a namespace of processes for the sandbox", {}};
  return first;
}

// Version 2 wants groups or processes in a group, not both: we go into one of our own.
void settle_group(std::string& group) {
  const std::string own = format("{}{}", kGroupMount, group);
  if (::access((own + "/cgroup.subtree_control").c_str(), W_OK) != 0)
    return;
  const std::string leaf = own + "/keeper";
  if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST)
    return;
  (void)put_text(leaf + "/cgroup.procs", "0", 0644);
  for (const char* word : {"+memory", "+pids", "+cpu", "+cpuset", "+io"})
    (void)put_text(own + "/cgroup.subtree_control", word, 0644);
}

// Locked for as long as we are there, so that the number is nobody else's.
Result<void> note_keeper(const std::string& path) {
  static int held = -1;
  if (held >= 0)
    return {};
  held = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  const std::string text = format("{}\n", ::getpid());
  if (held < 0 || ::flock(held, LOCK_EX | LOCK_NB) != 0 || ::ftruncate(held, 0) != 0 ||
      ::write(held, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return os_error(path);
  return {};
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

bool has_room(const Sandbox& sandbox) {
  const auto& all = sandbox.containers;
  const bool asks = sandbox.front_end_files || std::any_of(all.begin(), all.end(), [](const SandboxContainer& one) {
                      return one.rights != ContainerRights{};
                    });
  return ::geteuid() == 0 && asks &&
         std::any_of(all.begin(), all.end(), [](const SandboxContainer& one) { return !one.container.image.empty(); });
}

std::string group_in(std::string_view text, std::string_view controller) {
  std::string v2;
  for (const std::string& line : split(text, '\n')) {
    const auto parts = split(line, ':');
    if (parts.size() < 3)
      continue;
    std::string path = line.substr(parts[0].size() + parts[1].size() + 2);
    if (path == "/")
      path.clear();
    const auto controllers = split(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end())
      return path;
    if (parts[0] == "0")
      v2 = std::move(path);
  }
  return v2;
}

namespace {

// Of the containers that run together, or of an init container beside the sidecars that began before it, whichever is
// more. Source: kubernetes.io/docs/concepts/workloads/pods/sidecar-containers ("Resource sharing within containers").
template <class AmountOf>
std::uint64_t amount_of_all(const Sandbox& sandbox, AmountOf amount_of) {
  std::uint64_t together = 0, sidecars = 0, before = 0;
  for (const SandboxContainer& one : sandbox.containers)
    if (one.kind == ContainerKind::kInit)
      before = std::max(before, sidecars + amount_of(one));
    else if (one.kind == ContainerKind::kSidecar)
      sidecars += amount_of(one);
    else if (one.kind == ContainerKind::kMain)
      together += amount_of(one);
  return std::max(together + sidecars, before);
}

}  // namespace

std::uint64_t cpu_shares_of(const Sandbox& sandbox) {
  constexpr std::uint64_t kOfCore = 1024, kLeast = 2, kMost = 262'144;
  const std::uint64_t milli =
      amount_of_all(sandbox, [](const SandboxContainer& one) { return std::uint64_t{one.cpu_weight}; });
  return std::clamp(milli * kOfCore / 1000, kLeast, kMost);
}

// Source: kubernetes.io/docs/concepts/architecture/cgroups and KEP 2254.
std::uint64_t cpu_weight_of_shares(std::uint64_t shares) { return 1 + (shares - 2) * 9999 / 262'142; }

namespace {

void make_groups(const std::string& mount, const std::string& group) {
  if (::access(mount.c_str(), W_OK) != 0)
    return;
  for (std::size_t end = group.find('/', 1);; end = group.find('/', end + 1)) {
    (void)::mkdir((mount + group.substr(0, end)).c_str(), 0755);
    if (end == group.npos)
      return;
  }
}

void weigh_groups(const std::string& task, std::uint64_t shares) {
  const std::size_t job = task.rfind('/');
  if (job == task.npos || job == 0)
    return;
  for (const std::string& group : {task, task.substr(0, job)})
    for (const char* mount : {"/cpu", "/cpu,cpuacct", ""}) {
      const bool v2 = *mount == '\0';
      const std::string file = format("{}{}{}/{}", kGroupMount, mount, group, v2 ? "cpu.weight" : "cpu.shares");
      const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
      const std::string text = std::to_string(v2 ? cpu_weight_of_shares(shares) : shares);
      if (fd >= 0 && ::write(fd, text.data(), text.size()) < 0)
        errno = 0;
      if (fd >= 0)
        ::close(fd);
    }
}

}  // namespace

void weigh_task(const Sandbox& sandbox, const SandboxRoom& room) {
  if (!sandbox.front_end_files)
    return;
  weigh_groups(room.cpu_group, cpu_shares_of(sandbox));
  if (room.group == room.cpu_group)
    return;
  for (const char* mount : {"/cpu", "/cpu,cpuacct"}) make_groups(std::string(kGroupMount) + mount, room.group);
  weigh_groups(room.group, cpu_shares_of(sandbox));
}

std::uint64_t memory_limit_of(const Sandbox& sandbox) {
  for (const SandboxContainer& one : sandbox.containers)
    if (one.memory_bytes == 0 && one.kind != ContainerKind::kAdded)
      return 0;
  return amount_of_all(sandbox, [](const SandboxContainer& one) { return one.memory_bytes; });
}

std::string hosts_text(const Sandbox& sandbox, const std::string& host_name, const std::string& address,
                       const std::string& own) {
  std::string out;
  if (sandbox.network == TaskNetwork::kHost) {
    out = "# Kubernetes-managed hosts file (host network).\n" + own;
    if (!own.empty() && !own.ends_with('\n'))
      out.push_back('\n');
  } else {
    out =
        "# Kubernetes-managed hosts file.\n"
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        "fe00::0\tip6-localnet\n"
        "fe00::0\tip6-mcastprefix\n"
        "fe00::1\tip6-allnodes\n"
        "fe00::2\tip6-allrouters\n";
    if (!sandbox.domain.empty())
      out += format("{}\t{}.{}\t{}\n", address, host_name, sandbox.domain, host_name);
    else
      out += format("{}\t{}\n", address, host_name);
  }
  if (!sandbox.aliases.empty())
    out += "\n# Entries added by HostAliases.\n";
  for (const HostAlias& alias : sandbox.aliases) out += format("{}\t{}\n", alias.address, join(alias.names, "\t"));
  return out;
}

std::string lookup_text(const NameLookup& lookup) {
  std::string out;
  if (!lookup.searches.empty())
    out += format("search {}\n", join(lookup.searches, " "));
  for (const std::string& server : lookup.servers) out += format("nameserver {}\n", server);
  if (!lookup.options.empty())
    out += format("options {}\n", join(lookup.options, " "));
  return out;
}

Result<SandboxRoom> make_room(const Sandbox& sandbox, const SandboxSurroundings& around) {
  const auto work = parse_work_id(around.work);
  if (!work || !around.home.starts_with('/'))
    return invalid("the shim named no folder for the sandbox");
  SandboxRoom room{around.home, around.work, around.program, around.address, sandbox_folder(around.home, *work), {},
                   {},          {}};
  TRY(leave_place_of_job());
  for (const char* part : {"etc", "shm", "volumes", "runtime", "containers"})
    TRY(make_path(format("{}/{}", room.folder, part), 0700));
  TRY(put_text(room.folder + "/spec", encode_sandbox(sandbox), 0600));
  TRY(note_keeper(room.folder + "/keeper"));
  const std::string name = host_name();
  const auto own_hosts = read_plain("/etc/hosts", Links::kFollowed, kNamesFileMax);
  const auto own_lookup = read_plain("/etc/resolv.conf", Links::kFollowed, kNamesFileMax);
  const std::string lookup = lookup_text(sandbox.lookup);
  TRY(put_text(room.folder + "/etc/hosts", hosts_text(sandbox, name, room.address, own_hosts ? *own_hosts : ""), 0644));
  TRY(put_text(room.folder + "/etc/hostname", name + "\n", 0644));
  TRY(put_text(room.folder + "/etc/resolv.conf", !lookup.empty() ? lookup : own_lookup ? *own_lookup : "", 0644));
  TRY(mount_memory(room.folder + "/shm", "mode=1777,size=65536k"));
  for (const SandboxVolume& volume : sandbox.volumes) {
    SandboxVolume here = volume;
    if (here.kind == SandboxVolume::Kind::kHost)
      here.path = TRY(path_of_lasting(here.path, room.home));
    if (const auto made = make_volume(here, room.folder, sandbox); !made.ok())
      return Error{made.error().code,
                   format("MountVolume.SetUp failed for volume \"{}\" : {}", here.name, made.error().message),
                   {}};
  }
  for (const auto& [setting, value] : sandbox.sysctls) TRY(set_kernel(setting, value));
  const auto groups = read_plain("/proc/self/cgroup", Links::kRefused, kNamesFileMax);
  room.group = groups ? group_in(*groups) : std::string();
  room.cpu_group = groups ? group_in(*groups, "cpu") : std::string();
  settle_group(room.group);
  if (sandbox.shared_processes && !sandbox.node_processes)
    room.process_space = format("/proc/{}/ns/pid", TRY(hold_process_space()));
  return room;
}

void put_aside(const SandboxRoom& room, const std::string& path, const std::string& name) {
  const std::string trash = room.home + "/trash";
  ::mkdir(trash.c_str(), 0700);
  ::rename(path.c_str(), format("{}/{}.{}", trash, name, ::getpid()).c_str());
}

void leave_room(const SandboxRoom& room) {
  for (const char* part : {"volumes", "shm", "runtime", "etc"}) {
    const std::string path = format("{}/{}", room.folder, part);
    while (::umount2(path.c_str(), MNT_DETACH) == 0) {}
    put_aside(room, path, format("{}.{}", room.work, part));
  }
  remove_groups(room);
}

void change_memory_of_task(const std::string& group, std::uint64_t before_bytes, std::uint64_t bytes) {
  const std::string text = std::to_string(bytes), before = std::to_string(before_bytes);
  // The outer ones first where there is more, so that the inner ones never have more than they.
  std::vector<std::string> groups;
  for (std::string left = group; !left.empty(); left.resize(left.rfind('/'))) groups.push_back(left);
  if (bytes > before_bytes)
    std::reverse(groups.begin(), groups.end());
  for (const std::string& one : groups)
    for (int round = 0; round < 2; ++round)  // memory and swap bound each other
      for (const std::string& file : {format("{}/memory{}/memory.limit_in_bytes", kGroupMount, one),
                                      format("{}/memory{}/memory.memsw.limit_in_bytes", kGroupMount, one),
                                      format("{}{}/memory.max", kGroupMount, one)})
        if (const auto now = read_plain(file, Links::kRefused, 64); now.ok() && trim(*now) == before) {
          const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
          if (fd >= 0 && ::write(fd, text.data(), text.size()) < 0)
            errno = 0;
          ::close(fd);
        }
}

// Under version 1 each controller has them once. Those of our task and job are their makers' to remove, where it has
// made them: elsewhere runc did.
void remove_groups(const SandboxRoom& room) {
  if (room.group.empty())
    return;
  DIR* const mounts = ::opendir(kGroupMount);
  if (!mounts)
    return;
  while (const dirent* entry = ::readdir(mounts)) {
    const std::string name = entry->d_name;
    if (name.starts_with('.'))
      continue;
    std::string path = format("{}/{}{}", kGroupMount, name, room.group);
    for (std::string left = room.group; !left.empty() && ::rmdir(path.c_str()) == 0;) {
      left.resize(left.rfind('/'));
      path = format("{}/{}{}", kGroupMount, name, left);
    }
  }
  ::closedir(mounts);
}

}  // namespace lockstep
