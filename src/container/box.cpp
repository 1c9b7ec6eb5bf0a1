#include "container/box.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>

#include "base/text.h"
#include "container/box_mounts.h"

namespace lockstep {
namespace {

constexpr int kCapabilitiesMost = 63;
constexpr std::size_t kReportMax = 16 << 10;

Error no_namespaces(const char* what) {
  const int error = errno;
  return {Errc::kUnsupported,
          format("cannot make {}: {}. Containers need user namespaces for ordinary users: on this node look at "
                 "/proc/sys/user/max_user_namespaces, kernel.unprivileged_userns_clone and "
                 "kernel.apparmor_restrict_unprivileged_userns",
                 what, ::strerror(error)),
          {}};
}

Result<void> make_namespaces(bool as_root) {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    return no_namespaces("a user and a mount namespace");
  TRY(write_file("/proc/self/setgroups", "deny"));
  TRY(write_file("/proc/self/uid_map", format("{} {} 1\n", as_root ? 0 : uid, uid)));
  TRY(write_file("/proc/self/gid_map", format("{} {} 1\n", as_root ? 0 : gid, gid)));
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    return os_error("cannot set mounts apart from the node's");
  return {};
}

std::string escaped(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c == '\\' || c == ':' || c == ',')
      out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

Result<void> mount_layers(BoxPlan plan) {
  if (plan.upper.empty()) {
    // A second mount on the same folder lies over the first one; what was opened in it stays.
    if (::mount("tmpfs", plan.at.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=700") != 0)
      return os_error(format("cannot mount memory on {}", plan.at));
    plan.upper = plan.at + "/upper";
    plan.work = plan.at + "/work";
    for (const std::string& folder : {plan.upper, plan.work})
      if (::mkdir(folder.c_str(), 0755) != 0)
        return os_error(folder);
  }
  if (::mount("overlay", plan.at.c_str(), "overlay", MS_NOSUID | MS_NODEV, overlay_options(plan).c_str()) == 0)
    return {};
  return Error{Errc::kUnsupported,
               format("cannot mount the image's layers: {}. Containers need overlayfs in user namespaces: Linux 5.11, "
                      "and a disk under {} that is no overlay itself",
                      ::strerror(errno), plan.at),
               {}};
}

Result<void> enter_root(const BoxPlan& plan) {
  if (::chdir(plan.at.c_str()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 || ::umount2(".", MNT_DETACH) != 0 ||
      ::chdir("/") != 0)
    return os_error("cannot make the image the root");
  if (!plan.read_only)
    return {};
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  if (::syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attributes, sizeof attributes) != 0)
    return os_error("cannot make the image read-only");
  return {};
}

Result<void> build(const BoxPlan& plan, std::vector<std::string>& notes) {
  TRY(make_namespaces(plan.as_root));
  NodeTrees trees = take_node_trees(plan);
  TRY(mount_layers(plan));
  TRY(mount_inside(plan, std::move(trees), notes));
  return enter_root(plan);
}

// Nothing of the caller's stays with whoever sleeps here: no descriptor, terminal or signal.
[[noreturn]] void sleep_for_ever(int report, const std::vector<int>& keep_open) {
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "container");
  (void)drop_capabilities();
  std::vector<int> kept = keep_open;
  kept.push_back(report);
  std::sort(kept.begin(), kept.end());
  int from = 0;
  for (const int fd : kept) {
    if (fd > from)
      ::syscall(SYS_close_range, from, fd - 1, 0);
    from = fd + 1;
  }
  ::syscall(SYS_close_range, from, ~0U, 0);
  if (::write(report, "+", 1) != 1)
    ::_exit(1);
  ::close(report);
  for (;;) ::pause();
}

std::string read_to_end(int fd) {
  std::string text;
  char chunk[1024];
  for (ssize_t size; (size = ::read(fd, chunk, sizeof chunk)) != 0;)
    if (size > 0)
      text.append(chunk, static_cast<std::size_t>(size));
    else if (errno != EINTR)
      break;
  return text;
}

// Lines of notes, then "+" from whoever has succeeded, or "-" and what has failed. A plan, or a holder to join.
Result<pid_t> start_holder(const BoxPlan* plan, pid_t holder, const std::vector<int>& keep_open,
                           std::vector<std::string>& notes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return os_error("pipe");
  const pid_t pid = ::fork();
  if (pid < 0)
    return os_error("cannot make a process");
  if (pid == 0) {
    ::close(ends[0]);
    std::vector<std::string> mine;
    const auto built = plan ? build(*plan, mine) : join_box(holder);
    std::string report;
    for (const std::string& note : mine) report += note + "\n";
    if (!built.ok())
      report += "-" + built.error().message;
    if (report.size() > kReportMax)
      report.resize(kReportMax);
    [[maybe_unused]] const ssize_t size = ::write(ends[1], report.data(), report.size());
    if (!built.ok())
      ::_exit(1);
    sleep_for_ever(ends[1], keep_open);
  }
  ::close(ends[1]);
  const std::string report = read_to_end(ends[0]);
  ::close(ends[0]);
  const std::size_t line = report.rfind('\n') == report.npos ? 0 : report.rfind('\n') + 1;
  for (const std::string& note : split(report.substr(0, line), '\n'))
    if (!note.empty())
      notes.push_back(note);
  if (report.compare(line, report.npos, "+") == 0)
    return pid;
  ::waitpid(pid, nullptr, 0);
  return Error{Errc::kIo, report.size() > line + 1 ? report.substr(line + 1) : "the container's process was ended", {}};
}

}  // namespace

std::string overlay_options(const BoxPlan& plan) {
  std::string out = "lowerdir=";
  for (std::size_t i = 0; i < plan.lower.size(); ++i) out += (i > 0 ? ":" : "") + escaped(plan.lower[i]);
  if (!plan.upper.empty())
    out += format(",upperdir={},workdir={}", escaped(plan.upper), escaped(plan.work));
  return out + ",userxattr";
}

Result<pid_t> make_box(const BoxPlan& plan, std::vector<std::string>& notes) {
  return start_holder(&plan, 0, plan.keep_open, notes);
}

Result<pid_t> hold_box(pid_t holder, const std::vector<int>& keep_open) {
  std::vector<std::string> none;
  return start_holder(nullptr, holder, keep_open, none);
}

Result<void> join_box(pid_t holder) {
  const OpenFile user(::open(format("/proc/{}/ns/user", holder).c_str(), O_RDONLY | O_CLOEXEC));
  const OpenFile mounts(::open(format("/proc/{}/ns/mnt", holder).c_str(), O_RDONLY | O_CLOEXEC));
  if (!user.valid() || !mounts.valid())
    return os_error("the container's process is gone");
  if (::setns(user.get(), CLONE_NEWUSER) != 0 || ::setns(mounts.get(), CLONE_NEWNS) != 0)
    return os_error("cannot join the container");
  return {};
}

std::string mount_space_of(pid_t process) {
  char name[64];
  const ssize_t size = ::readlink(format("/proc/{}/ns/mnt", process).c_str(), name, sizeof name);
  return {name, size > 0 ? static_cast<std::size_t>(size) : 0};
}

Result<void> drop_capabilities() {
  for (int capability = 0; capability <= kCapabilitiesMost; ++capability)
    if (::prctl(PR_CAPBSET_READ, capability) == 1 && ::prctl(PR_CAPBSET_DROP, capability) != 0)
      return os_error("cannot give up capabilities");
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capset, &head, none) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return os_error("cannot give up capabilities");
  return {};
}

Result<void> with_layers(const BoxPlan& plan, Result<void> (*body)(void*), void* context) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return os_error("pipe");
  const pid_t pid = ::fork();
  if (pid < 0)
    return os_error("cannot make a process");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto done = make_namespaces(true);
    if (done.ok() && ::mount("overlay", plan.at.c_str(), "overlay", MS_NOSUID | MS_NODEV | MS_RDONLY,
                             overlay_options(plan).c_str()) != 0)
      done = os_error("cannot mount the layers");
    if (done.ok())
      done = body(context);
    const std::string report = done.ok() ? "+" : "-" + done.error().message;
    [[maybe_unused]] const ssize_t size = ::write(ends[1], report.data(), std::min(report.size(), kReportMax));
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string report = read_to_end(ends[0]);
  ::close(ends[0]);
  ::waitpid(pid, nullptr, 0);
  if (report == "+")
    return {};
  return Error{Errc::kIo, report.size() > 1 ? report.substr(1) : "the process was ended", {}};
}

}  // namespace lockstep
