#include "io/mig_capabilities.h"

#include <algorithm>
#include <set>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr const char* kMinorsFile = "/proc/driver/nvidia-caps/mig-minors";
constexpr std::size_t kMinorsMost = 65'536;

template <class Wanted>
std::vector<std::uint32_t> minors_in(std::string_view list, const Wanted& wanted) {
  std::vector<std::uint32_t> out;
  for (const std::string& line : split(list, '\n')) {
    const auto words = split_words(line);
    const auto minor = words.size() == 2 && wanted(words[0]) ? parse_uint(words[1]) : std::nullopt;
    if (minor && *minor <= UINT32_MAX && out.size() < kMinorsMost)
      out.push_back(static_cast<std::uint32_t>(*minor));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::uint32_t> mig_capabilities(std::string_view list, const std::vector<Device>& devices,
                                            const std::vector<MigSlice>& slices) {
  std::set<std::string> names;
  for (const MigSlice& slice : slices) {
    if (slice.device >= devices.size())
      continue;
    const std::string instance = format("gpu{}/gi{}", devices[slice.device].minor, slice.gpu_instance);
    names.insert(instance + "/access");
    names.insert(format("{}/ci{}/access", instance, slice.compute_instance));
  }
  return minors_in(list, [&names](const std::string& name) { return names.contains(name); });
}

std::vector<std::uint32_t> mig_capabilities(const std::vector<Device>& devices, const std::vector<MigSlice>& slices) {
  const auto list = read_plain(kMinorsFile, Links::kFollowed);
  return list ? mig_capabilities(*list, devices, slices) : std::vector<std::uint32_t>();
}

std::vector<std::uint32_t> all_mig_capabilities() {
  const auto list = read_plain(kMinorsFile, Links::kFollowed);
  return list ? minors_in(*list, [](const std::string&) { return true; }) : std::vector<std::uint32_t>();
}

}  // namespace lockstep
