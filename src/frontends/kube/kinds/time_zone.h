// A time zone of the system's database (tzdata): how far its clocks are ahead of UTC, at any moment.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

class TimeZone {
 public:
  // "Europe/Berlin"; "" and "UTC" are always there. Null: there is no such zone. Read once, then kept.
  static std::shared_ptr<const TimeZone> find(std::string_view name);
  // A TZif file (RFC 8536). Null: it is none.
  static std::shared_ptr<const TimeZone> parse(std::string_view bytes);

  // Seconds to add to that many seconds since 1970, UTC.
  std::int64_t offset(std::int64_t unix_seconds) const;

 private:
  struct Change {
    std::int64_t at = 0;
    std::int64_t offset = 0;
  };
  std::int64_t first_ = 0;       // before all changes
  std::vector<Change> changes_;  // ascending
};

}  // namespace lockstep::kube
