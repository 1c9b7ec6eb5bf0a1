#include "wire/forms.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

#include "wire/agent_fields.h"

namespace lockstep::wire {

namespace {

constexpr std::size_t kNumbersMax = kStepTasksMax;  // in one list written as "0-1000"; longer ones are plain lists
constexpr std::string_view kMemberLetters = "arsp";

}  // namespace

void Form<bounded::RankList, std::vector<std::uint32_t>>::write(Writer& w, const V& v, const V& base) {
  for (std::size_t i = 1; i < v.size(); ++i)
    if (v[i] <= v[i - 1] || v.size() > kNumbersMax)
      return Codec<V>::write(w, v, base);
  // Neighbours are "4-7", and what lies equally far apart is "0-96:32": ranks dealt out in blocks or in turn take a few
  // bytes, however many they are.
  w.out += '"';
  for (std::size_t i = 0; i < v.size();) {
    const std::uint32_t step = i + 1 < v.size() ? v[i + 1] - v[i] : 1;
    std::size_t end = i + 1;
    while (end < v.size() && v[end] - v[end - 1] == step) ++end;
    if (step > 1 && end - i < 3)
      end = i + 1;
    if (i)
      w.out += ',';
    append_number(w.out, v[i]);
    if (end - i > 1)
      append_number(w.out += '-', v[end - 1]);
    if (end - i > 1 && step > 1)
      append_number(w.out += ':', step);
    i = end;
  }
  w.out += '"';
}

bool Form<bounded::RankList, std::vector<std::uint32_t>>::read(Reader& r, const json::value& v, V& out) {
  if (v.is_array())
    return Codec<V>::read(r, v, out);
  IntervalSet set;
  if (!read_intervals(r, v, set))
    return false;
  if (r.strict() && set.size() > kNumbersMax)
    return r.fail(format("names more than {} numbers", kNumbersMax));
  if (!r.spend(set.size(), sizeof(out[0])))
    return false;
  out.clear();
  out.reserve(set.size());
  for (const Interval& part : set.intervals())
    for (std::uint64_t n = part.low; n <= part.high; ++n) out.push_back(static_cast<std::uint32_t>(n));
  return true;
}

void Form<bounded::MemberLetters, std::vector<MemberState>>::write(Writer& w, const V& v, const V&) {
  w.out += '"';
  for (const MemberState m : v) w.out += kMemberLetters[static_cast<std::size_t>(m)];
  w.out += '"';
}

bool Form<bounded::MemberLetters, std::vector<MemberState>>::read(Reader& r, const json::value& v, V& out) {
  const json::string* s = v.if_string();
  if (!s)
    return r.fail("must be a string of the letters a, r, s and p");
  out.clear();
  for (const char c : *s) {
    const std::size_t at = kMemberLetters.find(c);
    if (at == std::string_view::npos)
      return r.fail("must be a string of the letters a, r, s and p");
    out.push_back(static_cast<MemberState>(at));
  }
  return true;
}

void Form<ByRank, std::vector<TaskResult>>::write(Writer& w, const V& v, const V&) {
  std::vector<std::pair<ExitStatus, IntervalSet>> alike;  // in the order in which they first come
  for (const TaskResult& result : v) {
    auto at = std::find_if(alike.rbegin(), alike.rend(), [&](const auto& a) { return a.first == result.exit; });
    if (at == alike.rend()) {
      alike.emplace_back(result.exit, IntervalSet());
      at = alike.rbegin();
    }
    at->second.insert(result.rank);
  }
  char before = '[';
  for (const auto& [exit, ranks] : alike) {
    w.out += std::exchange(before, ',');
    w.out += "{\"ranks\":";
    Codec<IntervalSet>::write(w, ranks, {});
    w.out += ",\"exit\":";
    Codec<ExitStatus>::write(w, exit, {});
    w.out += '}';
  }
  w.out += alike.empty() ? "[]" : "]";
}

bool Form<ByRank, std::vector<TaskResult>>::read(Reader& r, const json::value& v, V& out) {
  const json::array* list = read_list(r, v, sizeof(TaskResult));
  if (!list)
    return false;
  out.clear();
  for (const json::value& item : *list) {
    TaskResult result;
    if (!Codec<TaskResult>::read(r, item, result))  // an earlier version's, of one rank; or of many without any
      return r.under(out.size());
    const json::value* ranks = item.if_object()->if_contains("ranks");
    if (!ranks) {
      out.push_back(result);
      continue;
    }
    IntervalSet set;
    if (!read_intervals(r, *ranks, set))
      return r.under("ranks");
    if (set.size() + out.size() > kStepTasksMax)
      return r.fail(format("names more than {} ranks", kStepTasksMax)), r.under("ranks");
    for (const Interval& part : set.intervals())
      for (std::uint64_t n = part.low; n <= part.high; ++n) out.push_back({static_cast<std::uint32_t>(n), result.exit});
  }
  return true;
}

std::size_t entries_of(const json::value& v) {
  if (const json::array* list = v.if_array())
    return list->size();
  if (const json::object* object = v.if_object())
    return object->size();
  return 0;
}

bool refuse(Reader& r, Fault fault) {
  r.path = std::move(fault.where);
  return r.fail(std::move(fault.why));
}

}  // namespace lockstep::wire
