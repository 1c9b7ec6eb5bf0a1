// Which device files the processes of a control group may not open. Version 1 has a list of its own; version 2 asks a
// program in the kernel. Sources: the kernel's admin-guide/cgroup-v1/devices.rst, cgroup-v2.rst "Device controller",
// and bpf(2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct DeviceNumber {
  std::uint32_t major = 0, minor = 0;
  friend bool operator==(const DeviceNumber&, const DeviceNumber&) = default;
};

// Devices of one major number, of which only `minors` may be opened. Version 2 closes all others, also those that come
// into being later; version 1 cannot say "all but", and closes those that are known.
struct DeviceFamily {
  std::uint32_t major = 0;
  std::vector<std::uint32_t> minors, known;
  friend bool operator==(const DeviceFamily&, const DeviceFamily&) = default;
};

struct DeviceLimits {
  std::vector<DeviceNumber> denied;
  std::vector<DeviceFamily> families;
  bool any() const { return !denied.empty() || !families.empty(); }
  friend bool operator==(const DeviceLimits&, const DeviceLimits&) = default;
};

// Of a character device; kNotFound where there is none of that name.
Result<DeviceNumber> device_number(const std::string& path);

// The program of version 2: its instructions, for those who would read them.
std::vector<std::uint64_t> device_program(const DeviceLimits& limits);

// Attaches it to the group of version 2, beside those that are there: what any of them denies is denied. It stays for
// as long as the group does. At most kDeniedMost devices are named, as a program has at most 4,096 instructions
// (bpf(2)).
inline constexpr std::size_t kDeniedMost = 256;
Result<void> deny_devices_v2(const std::string& group, const DeviceLimits& limits);

// The major number that /proc/devices gives to character devices of this name; kNotFound where it names none.
Result<std::uint32_t> device_major(std::string_view name);

}  // namespace lockstep
