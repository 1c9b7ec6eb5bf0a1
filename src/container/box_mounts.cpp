#include "container/box_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>

#include "base/text.h"
#include "container/open_file.h"
#include "wire/json_text.h"

namespace lockstep {
namespace {

constexpr std::size_t kPasswdMax = 8 << 20;

// As runc's default: what tells of the machine more than a job needs, and what could change it.
constexpr const char* kMasked[] = {"/proc/acpi",        "/proc/asound",  "/proc/interrupts",
                                   "/proc/kcore",       "/proc/keys",    "/proc/latency_stats",
                                   "/proc/sched_debug", "/proc/scsi",    "/proc/timer_list",
                                   "/proc/timer_stats", "/sys/firmware", "/sys/devices/virtual/powercap"};
constexpr const char* kReadOnly[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};
constexpr const char* kDevices[] = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"};
constexpr const char* kSharedDevices[] = {"pts", "shm", "mqueue", "infiniband", "gdrdrv"};
constexpr const char* kNodeFiles[] = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"};
constexpr const char* kNodeFilesIfThere[] = {"/etc/localtime"};

Result<OpenFile> take_tree(const std::string& source) {
  OpenFile tree(static_cast<int>(
      ::syscall(SYS_open_tree, AT_FDCWD, source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE)));
  if (!tree.valid())
    return os_error(source);
  return tree;
}

class Root {
 public:
  explicit Root(const std::string& at) : fd_(::open(at.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  int fd() const { return fd_.get(); }
  bool has(const std::string& path) const { return open_in_root(fd(), path, O_PATH).valid(); }

  // What lies at `source` on the node, and all that is mounted below it, shows at `target`.
  Result<void> bind(const std::string& source, const std::string& target, std::uint64_t attributes) const {
    return show(TRY(take_tree(source)), target, attributes);
  }

  Result<void> show(const OpenFile& tree, const std::string& target, std::uint64_t attributes) const {
    struct stat stat {};
    if (::fstat(tree.get(), &stat) != 0)
      return os_error(target);
    const OpenFile to = TRY(make_in_root(fd(), target, S_ISDIR(stat.st_mode) ? Target::kFolder : Target::kFile));
    if (attributes != 0) {
      mount_attr set{};
      set.attr_set = attributes;
      if (::syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &set, sizeof set) != 0)
        return os_error(format("cannot restrict the mount on {}", target));
    }
    return move(tree, to, target);
  }

  Result<void> memory(const std::string& target, const std::string& options, bool read_only) const {
    const OpenFile system(static_cast<int>(::syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC)));
    if (!system.valid())
      return os_error("tmpfs");
    for (const std::string& option : split(options, ',')) {
      const std::size_t equals = option.find('=');
      if (equals != option.npos && ::syscall(SYS_fsconfig, system.get(), FSCONFIG_SET_STRING,
                                             option.substr(0, equals).c_str(), option.c_str() + equals + 1, 0) != 0)
        return os_error(format("tmpfs on {}: {}", target, option));
    }
    if (::syscall(SYS_fsconfig, system.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
      return os_error(format("tmpfs on {}", target));
    const unsigned flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0);
    const OpenFile tree(static_cast<int>(::syscall(SYS_fsmount, system.get(), FSMOUNT_CLOEXEC, flags)));
    if (!tree.valid())
      return os_error(format("tmpfs on {}", target));
    return move(tree, TRY(make_in_root(fd(), target, Target::kFolder)), target);
  }

  Result<void> unmount(const std::string& target) const {
    const OpenFile there = open_in_root(fd(), target, O_PATH);
    if (!there.valid() || ::umount2(format("/proc/self/fd/{}", there.get()).c_str(), MNT_DETACH) != 0)
      return os_error(format("cannot unmount {} in the container", target));
    return {};
  }

 private:
  static Result<void> move(const OpenFile& tree, const OpenFile& to, const std::string& target) {
    if (::syscall(SYS_move_mount, tree.get(), "", to.get(), "",
                  MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS) != 0)
      return os_error(format("cannot mount on {} in the container", target));
    return {};
  }

  OpenFile fd_;
};

bool is_there(const std::string& path) {
  struct stat stat {};
  return ::stat(path.c_str(), &stat) == 0;
}

bool is_folder(const std::string& path) {
  struct stat stat {};
  return ::stat(path.c_str(), &stat) == 0 && S_ISDIR(stat.st_mode);
}

Result<void> mount_devices(const Root& root) {
  TRY(root.memory("/dev", "mode=755,size=65536k", false));
  for (const char* name : kDevices)
    if (const std::string path = format("/dev/{}", name); is_there(path))
      TRY(root.bind(path, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  for (const char* name : kSharedDevices)
    if (const std::string path = format("/dev/{}", name); is_there(path))
      TRY(root.bind(path, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  const OpenFile dev = open_in_root(root.fd(), "/dev", O_PATH | O_DIRECTORY);
  constexpr std::pair<const char*, const char*> kLinks[] = {{"/proc/self/fd", "fd"},
                                                            {"/proc/self/fd/0", "stdin"},
                                                            {"/proc/self/fd/1", "stdout"},
                                                            {"/proc/self/fd/2", "stderr"}};
  for (const auto& [to, name] : kLinks)
    if (::symlinkat(to, dev.get(), name) != 0)
      return os_error(format("/dev/{} in the container", name));
  return {};
}

Result<void> mount_kernel(const Root& root) {
  constexpr std::uint64_t kNothing = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  TRY(root.bind("/proc", "/proc", kNothing));
  TRY(root.bind("/sys", "/sys", kNothing | MOUNT_ATTR_RDONLY));
  TRY(mount_devices(root));
  for (const char* path : kReadOnly)
    if (is_there(path))
      TRY(root.bind(path, path, kNothing | MOUNT_ATTR_RDONLY));
  for (const char* path : kMasked)
    if (is_folder(path))
      TRY(root.memory(path, "mode=555,size=4k", true));
    else if (is_there(path))
      TRY(root.bind("/dev/null", path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY));
  return {};
}

// The node's file, at the place where a link of the image's may point elsewhere: that link goes.
Result<void> mount_node_file(const Root& root, const std::string& path) {
  const OpenFile above = open_in_root(root.fd(), path.substr(0, path.rfind('/')), O_PATH | O_DIRECTORY);
  struct stat stat {};
  const std::string name = path.substr(path.rfind('/') + 1);
  if (above.valid() && ::fstatat(above.get(), name.c_str(), &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(stat.st_mode))
    ::unlinkat(above.get(), name.c_str(), 0);
  return root.bind(path, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY);
}

Result<void> mount_node(const Root& root, const Result<OpenFile>& tmp) {
  for (const char* path : kNodeFiles)
    if (is_there(path))
      TRY(mount_node_file(root, path));
  for (const char* path : kNodeFilesIfThere)
    if (is_there(path))
      (void)mount_node_file(root, path);
  return tmp.ok() ? root.show(*tmp, "/tmp", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) : Result<void>(tmp.error());
}

bool has_option(const Mount& mount, std::string_view option) {
  return std::find(mount.options.begin(), mount.options.end(), option) != mount.options.end();
}

std::string tmpfs_options(const Mount& mount) {
  std::string out;
  for (const std::string& option : mount.options)
    if (option.starts_with("size=") || option.starts_with("mode="))
      out += (out.empty() ? "" : ",") + option;
  return out;
}

bool is_tree(const Mount& mount) { return mount.source != "tmpfs" && mount.source != "umount"; }

Result<void> mount_one(const Root& root, const Mount& mount, const Result<OpenFile>& tree) {
  if (mount.source == "tmpfs")
    return root.memory(mount.target, tmpfs_options(mount), mount.read_only);
  if (mount.source == "umount")
    return root.unmount(mount.target);
  std::uint64_t attributes = MOUNT_ATTR_NOSUID;
  constexpr std::pair<const char*, std::uint64_t> kWords[] = {
      {"nodev", MOUNT_ATTR_NODEV}, {"noexec", MOUNT_ATTR_NOEXEC}, {"ro", MOUNT_ATTR_RDONLY}};
  for (const auto& [word, attribute] : kWords)
    if (has_option(mount, word))
      attributes |= attribute;
  if (mount.read_only)
    attributes |= MOUNT_ATTR_RDONLY;
  return tree.ok() ? root.show(*tree, mount.target, attributes) : Result<void>(tree.error());
}

Result<void> mount_asked(const Root& root, const std::vector<Mount>& mounts,
                         const std::vector<Result<OpenFile>>& trees) {
  for (std::size_t i = 0; i < mounts.size(); ++i)
    if (auto done = mount_one(root, mounts[i], trees[i]); !done.ok() && !has_option(mounts[i], "nofail"))
      return Error{
          done.error().code, format("mount {}:{}: {}", mounts[i].source, mounts[i].target, done.error().message), {}};
  return {};
}

std::vector<Result<OpenFile>> take_trees(const std::vector<Mount>& mounts) {
  std::vector<Result<OpenFile>> trees;
  for (const Mount& mount : mounts)
    trees.push_back(is_tree(mount) ? take_tree(mount.source) : Result<OpenFile>(OpenFile()));
  return trees;
}

// So that the user has a name and a home inside.
void add_user(const Root& root, const BoxPlan& plan) {
  if (plan.as_root)
    return;
  const std::string uid = std::to_string(::geteuid()), gid = std::to_string(::getegid());
  const char* name = ::getenv("USER");
  const std::string named = name && *name && !::strpbrk(name, ":\n/") ? name : "user" + uid;
  const std::string user = uid == "0" ? "root" : named;
  const std::string passwd = read_in_root(root.fd(), "/etc/passwd", kPasswdMax);
  const std::string group = read_in_root(root.fd(), "/etc/group", kPasswdMax);
  const auto append = [&](const char* path, const std::string& text, const std::string& line) {
    const OpenFile file = open_in_root(root.fd(), path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0644);
    const std::string words = (text.empty() || text.ends_with('\n') ? "" : "\n") + line;
    [[maybe_unused]] const ssize_t size = file.valid() ? ::write(file.get(), words.data(), words.size()) : 0;
  };
  if (passwd.find(format(":{}:", uid)) == passwd.npos)
    append("/etc/passwd", passwd,
           format("{}:x:{}:{}::{}:/bin/sh\n", user, uid, gid, plan.home.find(':') == plan.home.npos ? plan.home : "/"));
  if (group.find(format(":{}:", gid)) == group.npos)
    append("/etc/group", group, format("{}:x:{}:\n", user, gid));
}

// apt fetches as a user of its own, whom there is none of inside.
void settle_apt(const Root& root, const BoxPlan& plan) {
  constexpr const char* kFolder = "/etc/apt/apt.conf.d";
  constexpr std::string_view kSetting = "APT::Sandbox::User \"root\";\n";
  if (!plan.as_root || !root.has(kFolder))
    return;
  const OpenFile file = open_in_root(root.fd(), format("{}/99lockstep", kFolder),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0644);
  [[maybe_unused]] const ssize_t size = file.valid() ? ::write(file.get(), kSetting.data(), kSetting.size()) : 0;
}

void run_hook(const CdiHook& hook, const std::string& state, std::vector<std::string>& notes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[0], 0);
    std::vector<char*> argv, env;
    for (const std::string& word : hook.args) argv.push_back(const_cast<char*>(word.c_str()));
    if (argv.empty())
      argv.push_back(const_cast<char*>(hook.path.c_str()));
    for (const std::string& line : hook.env) env.push_back(const_cast<char*>(line.c_str()));
    argv.push_back(nullptr);
    env.push_back(nullptr);
    ::execve(hook.path.c_str(), argv.data(), env.data());
    ::_exit(127);
  }
  ::close(ends[0]);
  [[maybe_unused]] const ssize_t size = ::write(ends[1], state.data(), state.size());
  ::close(ends[1]);
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || status != 0)
    notes.push_back(format("the hook {} of a device's specification failed", hook.path));
}

// Beside the mount, the hooks look for the bundle that a runtime would have.
Result<void> run_hooks(const BoxPlan& plan, std::vector<std::string>& notes) {
  if (plan.devices.hooks.empty())
    return {};
  const std::string bundle = plan.at.substr(0, plan.at.rfind('/'));
  JsonText config, state;
  config.object().field("ociVersion", "1.0.2").key("root").object().field("path", plan.at).end().end();
  TRY(write_file(bundle + "/config.json", config.take()));
  state.object().field("ociVersion", "1.0.2").field("id", "lockstep").field("status", "creating");
  state.field("pid", ::getpid()).field("bundle", bundle).end();
  const std::string text = state.take();
  for (const CdiHook& hook : plan.devices.hooks)
    if (hook.when == "createContainer" || hook.when == "createRuntime" || hook.when == "prestart")
      run_hook(hook, text, notes);
  return {};
}

}  // namespace

NodeTrees take_node_trees(const BoxPlan& plan) {
  return {take_tree("/tmp"), take_trees(plan.devices.mounts), take_trees(plan.mounts)};
}

Result<void> mount_inside(const BoxPlan& plan, NodeTrees trees, std::vector<std::string>& notes) {
  const Root root(plan.at);
  if (root.fd() < 0)
    return os_error(plan.at);
  TRY(mount_kernel(root));
  TRY(mount_node(root, trees.tmp));
  add_user(root, plan);
  settle_apt(root, plan);
  for (const auto& [outside, inside] : plan.devices.devices)
    if (auto done = root.bind(outside, inside, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC); !done.ok())
      notes.push_back(done.error().message);
  for (std::size_t i = 0; i < plan.devices.mounts.size(); ++i)
    if (auto done = mount_one(root, plan.devices.mounts[i], trees.device_mounts[i]); !done.ok())
      notes.push_back(done.error().message);
  TRY(run_hooks(plan, notes));
  TRY(mount_asked(root, plan.mounts, trees.mounts));
  if (!plan.work_dir.empty())
    (void)make_in_root(root.fd(), plan.work_dir, Target::kFolder);
  return {};
}

}  // namespace lockstep
