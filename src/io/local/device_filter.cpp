#include "io/local/device_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <bit>
#include <cstring>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::uint8_t kContext = 1, kType = 2, kMajor = 3, kMinor = 4, kAnswer = 0;  // registers

std::uint64_t instruction(int code, std::uint8_t to, std::uint8_t from, std::int16_t offset, std::int32_t value) {
  bpf_insn one{};
  one.code = static_cast<std::uint8_t>(code);
  one.dst_reg = to & 0xf;
  one.src_reg = from & 0xf;
  one.off = offset;
  one.imm = value;
  return std::bit_cast<std::uint64_t>(one);
}

std::uint64_t load_word(std::uint8_t to, std::size_t offset) {
  return instruction(BPF_LDX | BPF_W | BPF_MEM, to, kContext, static_cast<std::int16_t>(offset), 0);
}
std::uint64_t set(std::uint8_t to, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}
std::uint64_t skip_unless(std::uint8_t reg, std::uint32_t value, std::int16_t over) {
  return instruction(BPF_JMP32 | BPF_JNE | BPF_K, reg, 0, over, static_cast<std::int32_t>(value));
}
std::uint64_t end() { return instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

long call_bpf(int command, bpf_attr& attributes) { return ::syscall(SYS_bpf, command, &attributes, sizeof attributes); }

}  // namespace

Result<DeviceNumber> device_number(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || !S_ISCHR(found.st_mode))
    return not_found(path + " is no character device");
  return DeviceNumber{major(found.st_rdev), minor(found.st_rdev)};
}

Result<std::uint32_t> device_major(std::string_view name) {
  for (const std::string& line : split(TRY(read_plain("/proc/devices", Links::kFollowed)), '\n')) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[1] == name)
      if (const auto major = parse_uint(words[0]); major && *major <= UINT32_MAX)
        return static_cast<std::uint32_t>(*major);
  }
  return not_found(format("/proc/devices names no {}", name));
}

std::vector<std::uint64_t> device_program(const DeviceLimits& limits) {
  std::vector<std::uint64_t> out = {
      load_word(kType, offsetof(bpf_cgroup_dev_ctx, access_type)),
      instruction(BPF_ALU64 | BPF_AND | BPF_K, kType, 0, 0, 0xffff),
      load_word(kMajor, offsetof(bpf_cgroup_dev_ctx, major)),
      load_word(kMinor, offsetof(bpf_cgroup_dev_ctx, minor)),
  };
  for (const DeviceFamily& family : limits.families) {
    const auto inside = static_cast<std::int16_t>(3 * family.minors.size() + 2);
    out.push_back(skip_unless(kType, BPF_DEVCG_DEV_CHAR, static_cast<std::int16_t>(inside + 1)));
    out.push_back(skip_unless(kMajor, family.major, inside));
    for (const std::uint32_t minor : family.minors) {
      out.push_back(skip_unless(kMinor, minor, 2));
      out.push_back(set(kAnswer, 1));
      out.push_back(end());
    }
    out.push_back(set(kAnswer, 0));
    out.push_back(end());
  }
  for (const DeviceNumber& device : limits.denied) {
    out.push_back(skip_unless(kType, BPF_DEVCG_DEV_CHAR, 4));
    out.push_back(skip_unless(kMajor, device.major, 3));
    out.push_back(skip_unless(kMinor, device.minor, 2));
    out.push_back(set(kAnswer, 0));
    out.push_back(end());
  }
  out.push_back(set(kAnswer, 1));
  out.push_back(end());
  return out;
}

Result<void> deny_devices_v2(const std::string& group, const DeviceLimits& limits) {
  std::size_t named = limits.denied.size() + limits.families.size();
  for (const DeviceFamily& family : limits.families) named += family.minors.size();
  if (named > kDeniedMost)
    return invalid(format("{} devices are to be told apart; {} is the most", named, kDeniedMost));
  const std::vector<std::uint64_t> program = device_program(limits);
  bpf_attr load;
  std::memset(&load, 0, sizeof load);
  load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  load.insns = reinterpret_cast<std::uintptr_t>(program.data());
  load.insn_cnt = static_cast<std::uint32_t>(program.size());
  load.license = reinterpret_cast<std::uintptr_t>("GPL");
  const int loaded = static_cast<int>(call_bpf(BPF_PROG_LOAD, load));
  if (loaded < 0)
    return os_error("the program that denies devices (bpf)");
  const int dir = ::open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  long attached = -1;
  if (dir >= 0) {
    bpf_attr attach;
    std::memset(&attach, 0, sizeof attach);
    attach.target_fd = static_cast<std::uint32_t>(dir);
    attach.attach_bpf_fd = static_cast<std::uint32_t>(loaded);
    attach.attach_type = BPF_CGROUP_DEVICE;
    attach.attach_flags = BPF_F_ALLOW_MULTI;
    attached = call_bpf(BPF_PROG_ATTACH, attach);
  }
  const int why = errno;
  ::close(loaded);
  if (dir >= 0)
    ::close(dir);
  errno = why;
  return attached == 0 ? Result<void>() : os_error("the program that denies devices, at " + group);
}

}  // namespace lockstep
