#include "io/mig_capabilities.h"

#include <algorithm>
#include <set>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {

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
  std::vector<std::uint32_t> out;
  for (const std::string& line : split(list, '\n')) {
    const auto words = split_words(line);
    const auto minor = words.size() == 2 && names.contains(words[0]) ? parse_uint(words[1]) : std::nullopt;
    if (minor && *minor <= UINT32_MAX)
      out.push_back(static_cast<std::uint32_t>(*minor));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::uint32_t> mig_capabilities(const std::vector<Device>& devices, const std::vector<MigSlice>& slices) {
  const auto list = read_plain("/proc/driver/nvidia-caps/mig-minors", Links::kFollowed);
  return list ? mig_capabilities(*list, devices, slices) : std::vector<std::uint32_t>();
}

}  // namespace lockstep
