#include "container/oci_config.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "base/text.h"
#include "wire/json_text.h"

namespace lockstep {
namespace {

constexpr const char* kAllCapabilities[] = {"CHOWN",
                                            "DAC_OVERRIDE",
                                            "DAC_READ_SEARCH",
                                            "FOWNER",
                                            "FSETID",
                                            "KILL",
                                            "SETGID",
                                            "SETUID",
                                            "SETPCAP",
                                            "LINUX_IMMUTABLE",
                                            "NET_BIND_SERVICE",
                                            "NET_BROADCAST",
                                            "NET_ADMIN",
                                            "NET_RAW",
                                            "IPC_LOCK",
                                            "IPC_OWNER",
                                            "SYS_MODULE",
                                            "SYS_RAWIO",
                                            "SYS_CHROOT",
                                            "SYS_PTRACE",
                                            "SYS_PACCT",
                                            "SYS_ADMIN",
                                            "SYS_BOOT",
                                            "SYS_NICE",
                                            "SYS_RESOURCE",
                                            "SYS_TIME",
                                            "SYS_TTY_CONFIG",
                                            "MKNOD",
                                            "LEASE",
                                            "AUDIT_WRITE",
                                            "AUDIT_CONTROL",
                                            "SETFCAP",
                                            "MAC_OVERRIDE",
                                            "MAC_ADMIN",
                                            "SYSLOG",
                                            "WAKE_ALARM",
                                            "BLOCK_SUSPEND",
                                            "AUDIT_READ",
                                            "PERFMON",
                                            "BPF",
                                            "CHECKPOINT_RESTORE"};
constexpr const char* kUsualCapabilities[] = {"CHOWN",   "DAC_OVERRIDE", "FSETID",      "FOWNER",          "MKNOD",
                                              "NET_RAW", "SETGID",       "SETUID",      "SETFCAP",         "SETPCAP",
                                              "KILL",    "SYS_CHROOT",   "AUDIT_WRITE", "NET_BIND_SERVICE"};
constexpr const char* kMaskedPaths[] = {"/proc/asound",
                                        "/proc/acpi",
                                        "/proc/kcore",
                                        "/proc/keys",
                                        "/proc/latency_stats",
                                        "/proc/timer_list",
                                        "/proc/timer_stats",
                                        "/proc/sched_debug",
                                        "/sys/firmware",
                                        "/proc/scsi",
                                        "/sys/devices/virtual/powercap"};
constexpr const char* kReadOnlyPaths[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};

// Calls that a capability makes harmless or useless to refuse, and those that nobody needs.
struct RefusedCalls {
  const char* capability;  // whoever has it may; "" = nobody
  std::vector<const char*> calls;
};
const std::vector<RefusedCalls>& refused_calls() {
  static const std::vector<RefusedCalls> kCalls = {
      {"SYS_ADMIN", {"bpf",           "clone3",      "fanotify_init",   "fsconfig", "fsmount",
                     "fsopen",        "fspick",      "lookup_dcookie",  "mount",    "mount_setattr",
                     "move_mount",    "open_tree",   "perf_event_open", "quotactl", "quotactl_fd",
                     "setdomainname", "sethostname", "setns",           "umount",   "umount2",
                     "unshare"}},
      {"SYS_MODULE", {"delete_module", "init_module", "finit_module"}},
      {"SYS_PACCT", {"acct"}},
      {"SYS_BOOT", {"reboot"}},
      {"SYS_RAWIO", {"iopl", "ioperm"}},
      {"SYS_TIME", {"settimeofday", "stime", "clock_settime", "clock_settime64"}},
      {"SYS_TTY_CONFIG", {"vhangup"}},
      {"DAC_READ_SEARCH", {"open_by_handle_at"}},
      {"",
       {"add_key", "create_module", "get_kernel_syms", "kexec_file_load", "kexec_load", "keyctl", "nfsservctl",
        "pivot_root", "query_module", "request_key", "swapoff", "swapon", "sysfs", "_sysctl", "uselib", "userfaultfd",
        "ustat", "vm86", "vm86old"}},
  };
  return kCalls;
}

bool has(const std::vector<std::string>& capabilities, const char* name) {
  return std::find(capabilities.begin(), capabilities.end(), std::string("CAP_") + name) != capabilities.end();
}

void write_list(JsonText& j, std::string_view name, const std::vector<std::string>& words) {
  j.key(name).array();
  for (const std::string& word : words) j.value(word);
  j.end();
}

void write_process(JsonText& j, const OciPlan& plan, const std::vector<std::string>& capabilities) {
  j.key("user").object().field("uid", plan.user.uid).field("gid", plan.user.gid).key("additionalGids").array();
  for (const std::uint32_t group : plan.user.groups) j.value(group);
  j.end().end();
  write_list(j, "env", plan.env);
  j.field("cwd", plan.work_dir);
  // Of a user who is not root the kernel takes those that are in force when it executes the program.
  j.key("capabilities").object();
  for (const char* set : {"bounding", "effective", "permitted"}) write_list(j, set, capabilities);
  j.end();
  j.field("noNewPrivileges", plan.rights.no_new_privileges);
}

void write_mount(JsonText& j, std::string_view target, std::string_view type, std::string_view source,
                 const std::vector<std::string>& options) {
  j.object().field("destination", target).field("type", type).field("source", source);
  write_list(j, "options", options);
  j.end();
}

void write_mounts(JsonText& j, const OciPlan& plan) {
  const bool privileged = plan.rights.privileged;
  j.key("mounts").array();
  write_mount(j, "/proc", "proc", "proc", {"nosuid", "noexec", "nodev"});
  write_mount(j, "/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"});
  write_mount(j, "/dev/pts", "devpts", "devpts",
              {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"});
  write_mount(j, "/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"});
  write_mount(j, "/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", privileged ? "rw" : "ro"});
  write_mount(j, "/sys/fs/cgroup", "cgroup", "cgroup",
              {"nosuid", "noexec", "nodev", "relatime", privileged ? "rw" : "ro"});
  if (!plan.shm.empty())
    write_mount(j, "/dev/shm", "bind", plan.shm, {"rbind", "rw", "nosuid", "nodev", "noexec"});
  std::vector<OciMount> all = plan.mounts;
  for (const Mount& mount : plan.devices.mounts)
    all.push_back({mount.source, mount.target, mount.read_only, mount.options});
  for (const OciMount& mount : all) {
    std::vector<std::string> options = mount.options;
    std::erase_if(options, [](const std::string& word) { return word == "nofail" || word == "rw"; });
    options.insert(options.begin(), {"rbind", mount.read_only ? "ro" : "rw"});
    write_mount(j, mount.target, "bind", mount.source, options);
  }
  j.end();
}

void write_device(JsonText& j, const std::string& outside, const std::string& inside) {
  struct stat stat {};
  if (::stat(outside.c_str(), &stat) != 0 || !(S_ISCHR(stat.st_mode) || S_ISBLK(stat.st_mode)))
    return;
  j.object().field("path", inside).field("type", S_ISCHR(stat.st_mode) ? "c" : "b");
  j.field("major", static_cast<std::int64_t>(major(stat.st_rdev)));
  j.field("minor", static_cast<std::int64_t>(minor(stat.st_rdev)));
  j.field("fileMode", static_cast<std::int64_t>(stat.st_mode & 0777));
  j.field("uid", stat.st_uid).field("gid", stat.st_gid).end();
}

// All that the node has, but what a container has of its own.
void write_all_devices(JsonText& j, const std::string& folder, int depth) {
  DIR* const dir = depth > 0 ? ::opendir(folder.c_str()) : nullptr;
  if (!dir)
    return;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name, path = format("{}/{}", folder, name);
    constexpr std::string_view kOwn[] = {".", "..", "pts", "shm", "fd", "mqueue", "console", "ptmx"};
    struct stat stat {};
    if (std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn) || ::lstat(path.c_str(), &stat) != 0)
      continue;
    if (S_ISDIR(stat.st_mode))
      write_all_devices(j, path, depth - 1);
    else
      write_device(j, path, path);
  }
  ::closedir(dir);
}

void write_resources(JsonText& j, const OciPlan& plan) {
  constexpr std::uint64_t kPeriod = 100'000, kSharesOfCore = 1024, kSharesLeast = 2;
  constexpr std::int64_t kProcessesMax = 32'768;  // threads count: who forks without end takes no others with him
  j.key("resources").object().key("devices").array();
  j.object().field("allow", plan.rights.privileged).field("access", "rwm").end();
  for (const auto& [outside, inside] : plan.devices.devices) {
    struct stat stat {};
    if (::stat(outside.c_str(), &stat) != 0 || !S_ISCHR(stat.st_mode))
      continue;
    j.object().field("allow", true).field("type", "c").field("major", static_cast<std::int64_t>(major(stat.st_rdev)));
    j.field("minor", static_cast<std::int64_t>(minor(stat.st_rdev))).field("access", "rw").end();
  }
  j.end();
  j.key("pids").object().field("limit", kProcessesMax).end();
  if (plan.memory_bytes > 0)
    j.key("memory").object().field("limit", plan.memory_bytes).field("swap", plan.memory_bytes).end();
  if (plan.milli_cores > 0 || plan.cpu_weight > 0) {
    j.key("cpu").object();
    if (plan.milli_cores > 0)
      j.field("quota", std::max<std::uint64_t>(1000, plan.milli_cores * kPeriod / 1000)).field("period", kPeriod);
    if (plan.cpu_weight > 0)
      j.field("shares", std::max(kSharesLeast, plan.cpu_weight * kSharesOfCore / 1000));
    j.end();
  }
  j.end();
}

void write_seccomp(JsonText& j, const OciPlan& plan, const std::vector<std::string>& capabilities) {
  if (plan.rights.privileged || plan.rights.seccomp == "unconfined")
    return;
  if (!plan.seccomp.empty()) {
    j.key("seccomp").raw(plan.seccomp);
    return;
  }
  j.key("seccomp").object().field("defaultAction", "SCMP_ACT_ALLOW");
#if defined(__x86_64__)
  write_list(j, "architectures", {"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"});
#endif
  j.key("syscalls").array();
  for (const RefusedCalls& refused : refused_calls()) {
    if (*refused.capability && has(capabilities, refused.capability))
      continue;
    for (const char* call : refused.calls) {
      // clone3 hides its flags from a filter; the C library falls back to clone when it is not there.
      constexpr std::int64_t kNotPermitted = 1, kNotThere = 38;
      j.object().key("names").array().value(call).end().field("action", "SCMP_ACT_ERRNO");
      j.field("errnoRet", std::string_view(call) == "clone3" ? kNotThere : kNotPermitted).end();
    }
  }
  if (!has(capabilities, "SYS_ADMIN"))
    for (const std::uint64_t flag : {0x00020000u, 0x02000000u, 0x04000000u, 0x08000000u, 0x10000000u, 0x20000000u,
                                     0x40000000u}) {  // CLONE_NEWNS, CLONE_NEWCGROUP … CLONE_NEWNET
      j.object().key("names").array().value("clone").end().field("action", "SCMP_ACT_ERRNO");
      j.field("errnoRet", 1).key("args").array().object().field("index", 0).field("value", flag);
      j.field("valueTwo", flag).field("op", "SCMP_CMP_MASKED_EQ").end().end().end();
    }
  j.end().end();
}

void write_linux(JsonText& j, const OciPlan& plan, const std::vector<std::string>& capabilities) {
  j.key("linux").object();
  if (!plan.group.empty())
    j.field("cgroupsPath", plan.group);
  write_resources(j, plan);
  j.key("namespaces").array().object().field("type", "mount").end();
  if (!plan.process_space.empty())
    j.object().field("type", "pid").field("path", plan.process_space).end();
  else if (!plan.node_processes)
    j.object().field("type", "pid").end();
  j.end();
  j.key("devices").array();
  if (plan.rights.privileged)
    write_all_devices(j, "/dev", 3);
  for (const auto& [outside, inside] : plan.devices.devices) write_device(j, outside, inside);
  j.end();
  write_seccomp(j, plan, capabilities);
  if (!plan.rights.privileged) {
    j.key("maskedPaths").array();
    for (const char* path : kMaskedPaths) j.value(path);
    j.end().key("readonlyPaths").array();
    for (const char* path : kReadOnlyPaths) j.value(path);
    j.end();
  }
  j.end();
}

}  // namespace

Result<std::vector<std::string>> capabilities_of(const ContainerRights& rights, std::uint64_t at_hand) {
  const auto plain = [](std::string_view name) {
    return std::string(name.starts_with("CAP_") ? name.substr(4) : name);
  };
  const auto listed = [&](const std::vector<std::string>& list, std::string_view name) {
    return std::any_of(list.begin(), list.end(), [&](const std::string& one) { return plain(one) == name; });
  };
  for (const auto* list : {&rights.add_capabilities, &rights.drop_capabilities})
    for (const std::string& name : *list)
      if (plain(name) != "ALL" && std::find(std::begin(kAllCapabilities), std::end(kAllCapabilities), plain(name)) ==
                                      std::end(kAllCapabilities))
        return not_found(format("there is no capability {}", name));
  std::vector<std::string> out;
  std::uint64_t number = 0;
  for (const std::string_view name : kAllCapabilities) {
    const bool is_at_hand = (at_hand >> number++ & 1) != 0;
    const bool usual =
        std::find(std::begin(kUsualCapabilities), std::end(kUsualCapabilities), name) != std::end(kUsualCapabilities);
    const bool all = (rights.privileged || listed(rights.add_capabilities, "ALL")) && is_at_hand;
    // What is named wins over "ALL" of the other list.
    bool given = all || (usual && !listed(rights.drop_capabilities, "ALL"));
    given = (given && (!listed(rights.drop_capabilities, name) || rights.privileged)) ||
            listed(rights.add_capabilities, name);
    if (given)
      out.push_back(format("CAP_{}", name));
  }
  return out;
}

Result<std::string> oci_process_head(const OciPlan& plan) {
  const auto capabilities = TRY(capabilities_of(plan.rights, plan.at_hand));
  JsonText j;
  j.object();
  write_process(j, plan, capabilities);
  j.end();
  std::string text = j.take();
  text.pop_back();
  return text;
}

Result<std::string> oci_config(const OciPlan& plan) {
  const auto capabilities = TRY(capabilities_of(plan.rights, plan.at_hand));
  JsonText j;
  j.object().field("ociVersion", "1.0.2");
  j.key("root").object().field("path", "rootfs").field("readonly", plan.rights.read_only_root).end();
  j.key("process").object().field("terminal", plan.terminal);
  write_process(j, plan, capabilities);
  write_list(j, "args", plan.argv);
  j.field("oomScoreAdj", plan.oom_score);
  j.end();
  write_mounts(j, plan);
  write_linux(j, plan, capabilities);
  j.end();
  return j.take();
}

}  // namespace lockstep
