// For tests: answers as somebody gets them who may see all of it.
#pragma once

#include "model/kinds.h"
#include "wire/api.h"

namespace lockstep {

template <class T>
Visible<T> whole(const Ref<T>& ref) {
  return ref ? as_seen_by(ref, Visibility::kAdministrator).template as<T>() : Visible<T>();
}
inline std::string encode(const Started& started) {
  return encode(VisibleStarted{whole(started.job), whole(started.step)});
}
inline std::string encode(const JobDetail& detail) {
  VisibleDetail out{whole(detail.job), {}, {}, detail.note};
  for (const auto& step : detail.steps) out.steps.push_back(whole(step));
  for (const auto& task : detail.tasks) out.tasks.push_back(whole(task));
  return encode(out);
}
inline std::string encode(const Change& change) {
  return encode_change(change.seq, as_seen_by(change.record, Visibility::kAdministrator), change.removed);
}
inline std::string encode_records(Kind kind, const std::vector<Record>& records) {
  std::vector<VisibleRecord> out;
  for (const Record& record : records) out.push_back(as_seen_by(record, Visibility::kAdministrator));
  return encode_records(kind, out);
}

}  // namespace lockstep
