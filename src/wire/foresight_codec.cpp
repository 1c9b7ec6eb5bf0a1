// Explanations, and what is foreseen in changed worlds.
#include "base/text.h"
#include "wire/fields.h"
#include "wire/foresight.h"

namespace lockstep {

namespace wire {

// A front end has put it in words: those are written.
template <>
inline constexpr std::size_t kUnwritten<Suggestion> = 1;  // the remedy
template <>
inline constexpr std::size_t kUnwritten<Explanation> = 1;  // the topic

template <class V>
constexpr void describe(V& v, const Foreseen*) {
  v.always("started", &Foreseen::started);
  v.always("start_us", &Foreseen::start);
  v("binds", &Foreseen::binds);
  v.always("partition", &Foreseen::partition);
  v.always("nodes", &Foreseen::nodes);
  v("cores", &Foreseen::cores);
  v.always("reason", &Foreseen::reason);
}

template <class V>
constexpr void describe(V& v, const NodeFilter*) {
  v.always("name", &NodeFilter::name);
  v.always("left", &NodeFilter::left);
  v("lost", &NodeFilter::lost);
  v("example", &NodeFilter::example);
}

template <class V>
constexpr void describe(V& v, const NodeFunnel*) {
  v.always("partition", &NodeFunnel::partition);
  v("group", &NodeFunnel::group);
  v.always("wanted", &NodeFunnel::wanted);
  v("closed", &NodeFunnel::closed);
  v.always("filters", &NodeFunnel::filters);
}

template <class V>
constexpr void describe(V& v, const JobAhead*) {
  v.always("job", &JobAhead::job);
  v.always("name", &JobAhead::name);
  v.always("user", &JobAhead::user);
  v.always("why", &JobAhead::why);
  v.always("expected", &JobAhead::expected);
}

template <class V>
constexpr void describe(V& v, const JobInTheWay*) {
  v.always("job", &JobInTheWay::job);
  v.always("name", &JobInTheWay::name);
  v.always("user", &JobInTheWay::user);
  v.always("nodes", &JobInTheWay::nodes);
  v.always("until_us", &JobInTheWay::until);
}

template <class V>
constexpr void describe(V& v, const Suggestion*) {
  v.always("change", &Suggestion::change);
  v.always("command", &Suggestion::command);
  v.always("then", &Suggestion::then);
}

template <class V>
constexpr void describe(V& v, const Explanation*) {
  v.always("job", &Explanation::job);
  v.always("name", &Explanation::name);
  v.always("user", &Explanation::user);
  v.always("state", &Explanation::state);
  v.always("because", &Explanation::because);
  v("not_before_us", &Explanation::not_before);
  v.always("expected", &Explanation::expected);
  v.always("funnels", &Explanation::funnels);
  v.always("ahead", &Explanation::ahead);
  v.always("first_ahead", &Explanation::first_ahead);
  v.always("in_the_way", &Explanation::in_the_way);
  v.always("suggestions", &Explanation::suggestions);
  v.always("plans", &Explanation::plans);
  v.always("all_tried", &Explanation::all_tried);
}

template <class V>
constexpr void describe(V& v, const BeforeAfter*) {
  v.always("job", &BeforeAfter::job);
  v.always("name", &BeforeAfter::name);
  v.always("user", &BeforeAfter::user);
  v("added", &BeforeAfter::added);
  v("removed", &BeforeAfter::removed);
  v.always("before", &BeforeAfter::before);
  v.always("after", &BeforeAfter::after);
}

template <class V>
constexpr void describe(V& v, const ForeseenTotals*) {
  v.always("jobs", &ForeseenTotals::jobs);
  v.always("start_now", &ForeseenTotals::start_now);
  v.always("no_time", &ForeseenTotals::no_time);
  v.always("mean_wait_s", &ForeseenTotals::mean_wait_s);
  v.always("last_start_s", &ForeseenTotals::last_start_s);
}

template <class V>
constexpr void describe(V& v, const WhatIfAnswer*) {
  v.always("jobs", &WhatIfAnswer::jobs);
  v.always("before", &WhatIfAnswer::before);
  v.always("after", &WhatIfAnswer::after);
}

template <class V>
constexpr void describe(V& v, const PastFigures*) {
  v.always("mean_wait_s", &PastFigures::mean_wait_s);
  v.always("max_wait_s", &PastFigures::max_wait_s);
  v.always("slowdown_milli", &PastFigures::slowdown_milli);
  v.always("used_permille", &PastFigures::used_permille);
}

template <class V>
constexpr void describe(V& v, const WhatIfPast*) {
  v.always("jobs", &WhatIfPast::jobs);
  v.always("left_out", &WhatIfPast::left_out);
  v.always("by_gpus", &WhatIfPast::by_gpus);
  v.always("recorded", &WhatIfPast::recorded);
  v.always("as_is", &WhatIfPast::as_is);
  v.always("changed", &WhatIfPast::changed);
}

template <class V>
constexpr void describe(V& v, const TrySubmit*) {
  v.always("job_id", &TrySubmit::job);
  v.always("foreseen", &TrySubmit::foreseen);
  v.always("message", &TrySubmit::message);
}

}  // namespace wire

std::string encode(const Explanation& explanation) { return wire::encode_value(explanation); }
Result<Explanation> decode_explanation(std::string_view text) {
  return wire::decode_value<Explanation>(text, wire::Origin::kStranger);
}
std::string encode(const WhatIfAnswer& answer) { return wire::encode_value(answer); }
Result<WhatIfAnswer> decode_what_if_answer(std::string_view text) {
  return wire::decode_value<WhatIfAnswer>(text, wire::Origin::kStranger);
}
std::string encode(const WhatIfPast& answer) { return wire::encode_value(answer); }
Result<WhatIfPast> decode_what_if_past(std::string_view text) {
  return wire::decode_value<WhatIfPast>(text, wire::Origin::kStranger);
}
std::string sentence(JobId job, const Foreseen& f, std::string_view start) {
  if (!f.start)
    return format("Job {} would wait in partition {}: {}", job.value, f.partition, f.reason);
  std::string place;
  if (!f.nodes.empty())
    place = format(" using {} processors on nodes {}", f.cores, f.nodes);
  return format("Job {} to start at {}{} in partition {}", job.value, start, place, f.partition);
}

std::string encode(const TrySubmit& answer) { return wire::encode_value(answer); }
Result<TrySubmit> decode_try_submit(std::string_view text) {
  return wire::decode_value<TrySubmit>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
