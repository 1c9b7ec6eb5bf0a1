// When a CronJob is due: "30 6-18/4 * * mon-fri", "@daily", "@every 1h30m", in a time zone.
// Grammar: kubernetes.io/docs/concepts/workloads/controllers/cron-jobs, "Schedule syntax".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "frontends/kube/kinds/time_zone.h"

namespace lockstep::kube {

class CronSchedule {
 public:
  // Errors: what of the text cannot be read.
  static Result<CronSchedule> parse(std::string_view text, std::shared_ptr<const TimeZone> zone);

  // The first time behind `after`, in whole minutes (of @every in seconds from there on). Nothing: none within five
  // years, as for the 31st of February.
  std::optional<WallTime> next(WallTime after) const;

 private:
  bool day_matches(std::int64_t day, std::int64_t month, std::int64_t weekday) const;

  std::shared_ptr<const TimeZone> zone_;
  Duration every_;  // 0: by the fields
  std::uint64_t minutes_ = 0, hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;
  bool any_day_ = false, any_weekday_ = false;  // a "*": the other one alone decides
};

}  // namespace lockstep::kube
