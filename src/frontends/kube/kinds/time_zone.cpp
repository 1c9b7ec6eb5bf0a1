#include "frontends/kube/kinds/time_zone.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>

namespace lockstep::kube {

namespace {

constexpr const char* kFolder = "/usr/share/zoneinfo/";
constexpr std::size_t kFileMax = 256u << 10, kHeader = 44, kZonesMax = 2000;

// Of names that people write; nothing leads out of the folder.
bool is_zone_name(std::string_view name) {
  constexpr std::string_view kOther = "_+-/";
  return !name.empty() && name.size() < 100 && name.front() != '/' && name.find("..") == std::string_view::npos &&
         std::ranges::all_of(name, [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kOther.find(c) != std::string_view::npos;
         });
}

std::int64_t number_at(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return width == 4 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(value)) : static_cast<std::int64_t>(value);
}

struct Counts {
  std::size_t utc = 0, standard = 0, leaps = 0, times = 0, types = 0, letters = 0;

  std::size_t bytes(std::size_t time_width) const {
    return times * time_width + times + types * 6 + letters + leaps * (time_width + 4) + standard + utc;
  }
};

Counts counts_at(std::string_view bytes, std::size_t at) {
  const auto count = [&](std::size_t which) {
    return static_cast<std::size_t>(static_cast<std::uint32_t>(number_at(bytes, at + 20 + which * 4, 4)));
  };
  return {count(0), count(1), count(2), count(3), count(4), count(5)};
}

}  // namespace

std::shared_ptr<const TimeZone> TimeZone::parse(std::string_view bytes) {
  if (bytes.size() < kHeader || !bytes.starts_with("TZif") || bytes.size() > kFileMax)
    return nullptr;
  Counts counts = counts_at(bytes, 0);
  std::size_t at = kHeader, width = 4;
  if (bytes[4] >= '2') {  // the same again behind it, in 64 bits
    if (counts.bytes(4) > kFileMax || bytes.size() < kHeader + counts.bytes(4) + kHeader)
      return nullptr;
    at = kHeader + counts.bytes(4);
    counts = counts_at(bytes, at);
    at += kHeader;
    width = 8;
  }
  if (counts.times > kFileMax || counts.types == 0 || counts.types > 256 || counts.bytes(width) > kFileMax ||
      bytes.size() < at + counts.bytes(width))
    return nullptr;
  const std::size_t kinds = at + counts.times * width, types = kinds + counts.times;
  const auto offset_of = [&](std::size_t type) { return number_at(bytes, types + type * 6, 4); };
  auto zone = std::make_shared<TimeZone>();
  zone->first_ = offset_of(0);
  for (std::size_t i = 0; i < counts.times; ++i) {
    const auto type = static_cast<unsigned char>(bytes[kinds + i]);
    if (type >= counts.types)
      return nullptr;
    zone->changes_.push_back({number_at(bytes, at + i * width, width), offset_of(type)});
  }
  return std::ranges::is_sorted(zone->changes_, {}, &Change::at) ? zone : nullptr;
}

std::shared_ptr<const TimeZone> TimeZone::find(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const TimeZone>, std::less<>> known;
  static const auto utc = std::make_shared<const TimeZone>();
  if (name.empty() || name == "UTC" || name == "Etc/UTC")
    return utc;
  if (!is_zone_name(name))
    return nullptr;
  const std::lock_guard lock(mutex);
  if (const auto at = known.find(name); at != known.end())
    return at->second;
  std::ifstream file(kFolder + std::string(name), std::ios::binary);
  std::string bytes(kFileMax, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  auto zone = parse(bytes);
  if (zone && known.size() < kZonesMax)
    known.emplace(name, zone);
  return zone;
}

std::int64_t TimeZone::offset(std::int64_t unix_seconds) const {
  const auto next = std::ranges::upper_bound(changes_, unix_seconds, {}, &Change::at);
  return next == changes_.begin() ? first_ : std::prev(next)->offset;
}

}  // namespace lockstep::kube
