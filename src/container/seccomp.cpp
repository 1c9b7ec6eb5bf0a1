#include "container/seccomp.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>

#include <memory>
#include <string>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr const char* kForbidden[] = {
    "acct",
    "add_key",
    "bpf",
    "create_module",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "init_module",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "setns",
    "swapoff",
    "swapon",
    "sysfs",
    "umount",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vm86",
    "vm86old",
    "chroot",
    "settimeofday",
    "stime",
    "clock_settime",
};
// clone3 hides its flags from a filter; the C library falls back to clone when it is not there.
constexpr const char* kAbsent[] = {"clone3"};
constexpr const char* kPretended[] = {
    "chown",       "chown32",   "fchown",      "fchown32", "fchownat",   "lchown",    "lchown32",    "setgid",
    "setgid32",    "setgroups", "setgroups32", "setregid", "setregid32", "setresgid", "setresgid32", "setresuid",
    "setresuid32", "setreuid",  "setreuid32",  "setuid",   "setuid32",   "mknod",     "mknodat",
};
constexpr std::uint64_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr std::uint64_t kSockets[] = {40 /* AF_VSOCK */};

struct Release {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, Release>;

// A call that the library does not know is of no machine. One that only programs of 32 bits have counts for those.
bool add(const Filter& filter, std::uint32_t action, const char* name) {
  const int call = ::seccomp_syscall_resolve_name(name);
  return call == __NR_SCMP_ERROR || ::seccomp_rule_add(filter.get(), action, call, 0) == 0;
}

bool add_all(const Filter& filter, bool as_root) {
  bool good = true;
  for (const char* name : kForbidden) good = good && add(filter, SCMP_ACT_ERRNO(EPERM), name);
  for (const char* name : kAbsent) good = good && add(filter, SCMP_ACT_ERRNO(ENOSYS), name);
  if (as_root)
    for (const char* name : kPretended) good = good && add(filter, SCMP_ACT_ERRNO(0), name);
  for (std::uint64_t bit = 1; bit != 0; bit <<= 1)
    if ((kNamespaces & bit) != 0)
      good = good && ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                        SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit)) == 0;
  for (const std::uint64_t family : kSockets)
    good = good && ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                      SCMP_A0(SCMP_CMP_EQ, family)) == 0;
  return good;
}

}  // namespace

Result<void> forbid_system_calls(bool as_root) {
  const Filter filter(::seccomp_init(SCMP_ACT_ALLOW));
  if (!filter)
    return Error{Errc::kIo, "cannot make a filter of system calls", {}};
#if defined(__x86_64__)
  // Programs of 32 bits run as well, under the same rules.
  (void)::seccomp_arch_add(filter.get(), SCMP_ARCH_X86);
#endif
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_NNP, 1);
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  if (!add_all(filter, as_root))
    return Error{Errc::kIo, "cannot make a filter of system calls", {}};
  if (const int error = ::seccomp_load(filter.get()); error != 0)
    return Error{Errc::kIo, format("cannot load the filter of system calls: {}", ::strerror(-error)), {}};
  return {};
}

}  // namespace lockstep
