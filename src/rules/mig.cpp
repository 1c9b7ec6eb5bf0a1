#include "rules/mig.h"

namespace lockstep {

namespace {

// All 80-GB class generations share one geometry; only the sizes in the names differ.
constexpr std::array<std::int8_t, 7> kEvery{0, 1, 2, 3, 4, 5, 6};
constexpr std::array<std::int8_t, 7> kPairs{0, 2, 4, 6, -1};
constexpr std::array<std::int8_t, 7> kTwo{0, 2, 4, -1};
constexpr std::array<std::int8_t, 7> kHalves{0, 4, -1};
constexpr std::array<std::int8_t, 7> kFirst{0, -1};

constexpr std::array<MigProfile, 6> seven(std::string_view g1, std::string_view g1_wide, std::string_view g2,
                                          std::string_view g3, std::string_view g4, std::string_view g7) {
  return {{{g1, 1, 1, kEvery},
           {g1_wide, 1, 2, kPairs},
           {g2, 2, 2, kTwo},
           {g3, 3, 4, kHalves},
           {g4, 4, 4, kFirst},
           {g7, 7, 8, kFirst}}};
}

constexpr auto kA100_40 = seven("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb");
constexpr auto k80 = seven("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb");
constexpr auto kH100_94 = seven("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb");
constexpr auto kH100_96 = seven("1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb");
constexpr auto kH200 = seven("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb");
constexpr auto kB200 = seven("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb");
constexpr std::array<MigProfile, 3> kA30{
    {{"1g.6gb", 1, 1, {0, 1, 2, 3, -1}}, {"2g.12gb", 2, 2, {0, 2, -1}}, {"4g.24gb", 4, 4, kFirst}}};

struct Taken {
  std::uint32_t memory = 0;   // mask
  std::uint32_t compute = 0;  // slices
};

Taken taken_of(const Device& device, const std::vector<DevicePart>& parts) {
  Taken taken;
  for (const DevicePart& part : parts)
    if (const MigProfile* profile = mig_profile(device, part.mig)) {
      taken.memory |= profile->mask(part.slice);
      taken.compute += profile->compute;
    }
  return taken;
}

std::uint32_t compute_slices(std::span<const MigProfile> profiles) { return profiles.back().compute; }

bool fits(const MigProfile& profile, std::uint32_t start, const Taken& taken, std::uint32_t compute_max) {
  return (taken.memory & profile.mask(start)) == 0 && taken.compute + profile.compute <= compute_max;
}

// How many placements of any profile are still possible, each weighed by its size.
std::uint32_t room_left(std::span<const MigProfile> profiles, const Taken& taken) {
  std::uint32_t room = 0;
  for (const MigProfile& profile : profiles)
    for (const std::int8_t start : profile.starts) {
      if (start < 0)
        break;
      if (fits(profile, static_cast<std::uint32_t>(start), taken, compute_slices(profiles)))
        room += profile.memory;
    }
  return room;
}

}  // namespace

std::span<const MigProfile> mig_profiles(const Device& device) {
  const std::string_view type = device.type;
  const auto is = [&](std::string_view name) { return type.find(name) != type.npos; };
  const std::int64_t gb = device.memory_mb / 1000;
  if (is("a100"))
    return gb > 0 && gb < 60 ? kA100_40 : k80;
  if (is("gh200"))
    return kH100_96;
  if (is("h200"))
    return kH200;
  if (is("h100"))
    return gb < 90 ? k80 : gb < 100 && gb >= 96 ? kH100_96 : kH100_94;
  if (is("b200"))
    return kB200;
  if (is("a30"))
    return kA30;
  return {};
}

const MigProfile* mig_profile(const Device& device, std::string_view name) {
  for (const MigProfile& profile : mig_profiles(device))
    if (profile.name == name)
      return &profile;
  return nullptr;
}

int place_mig(const Device& device, const MigProfile& profile, const std::vector<DevicePart>& taken_parts) {
  const auto profiles = mig_profiles(device);
  const Taken taken = taken_of(device, taken_parts);
  int best = -1;
  std::uint32_t best_room = 0;
  for (const std::int8_t start : profile.starts) {
    if (start < 0)
      break;
    if (!fits(profile, static_cast<std::uint32_t>(start), taken, compute_slices(profiles)))
      continue;
    Taken after = taken;
    after.memory |= profile.mask(static_cast<std::uint32_t>(start));
    after.compute += profile.compute;
    const std::uint32_t room = room_left(profiles, after);
    if (best < 0 || room > best_room) {
      best = start;
      best_room = room;
    }
  }
  return best;
}

bool mig_fits(const Device& device, const DevicePart& part, const std::vector<DevicePart>& taken) {
  const MigProfile* profile = mig_profile(device, part.mig);
  if (!profile)
    return false;
  for (const std::int8_t start : profile->starts) {
    if (start < 0)
      break;
    if (start == part.slice)
      return fits(*profile, part.slice, taken_of(device, taken), compute_slices(mig_profiles(device)));
  }
  return false;
}

}  // namespace lockstep
