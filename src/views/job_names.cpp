// Job and step names, read and written.
#include "views/job_names.h"

#include <set>

#include "base/text.h"
#include "model/job.h"

namespace lockstep {

namespace {

constexpr std::string_view kBatchName = "batch";

Error refused(std::string_view text, std::string_view why) {
  constexpr std::size_t kShown = 60;
  return invalid(format("\"{}\" does not name a job: {}", text.substr(0, kShown), why), "id");
}

// How many intervals the text stands for, at most; 0 where it is not well formed: then the parser says why.
std::uint64_t ranges_of(std::string_view text) {
  std::uint64_t count = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    const auto dash = part.find('-'), colon = part.find(':');
    ++count;
    if (dash != std::string_view::npos && colon != std::string_view::npos && dash < colon) {
      const auto low = parse_uint(part.substr(0, dash)), high = parse_uint(part.substr(dash + 1, colon - dash - 1)),
                 step = parse_uint(part.substr(colon + 1));
      if (low && high && step && *step > 1 && *high > *low)
        count += (*high - *low) / *step;
    }
    start = end + 1;
  }
  return count;
}

Result<IntervalSet> parse_elements(std::string_view whole, std::string_view text, std::size_t& ranges) {
  if (text.starts_with('[')) {
    if (!text.ends_with(']') || text.size() < 3)
      return refused(whole, "'[' is never closed");
    text = text.substr(1, text.size() - 2);
    if (const auto percent = text.find('%'); percent != std::string_view::npos) {
      if (!parse_uint(text.substr(percent + 1)))
        return refused(whole, "a number is expected after '%'");
      text = text.substr(0, percent);
    }
  } else if (!parse_uint(text)) {
    return refused(whole, "after '_' an index or [a list of them] is expected");
  }
  auto elements = parse_indices(text, ranges);
  if (!elements.ok())
    return refused(whole, elements.error().message);
  return elements;
}

Result<StepNo> parse_step(std::string_view whole, std::string_view text) {
  if (text == kBatchName)
    return kBatchStep;
  const auto number = parse_uint(text);
  if (!number || *number > INT32_MAX)
    return refused(whole, "after '.' a step's number or \"batch\" is expected");
  return static_cast<StepNo>(*number);
}

Result<WorkName> parse_name(std::string_view text, std::size_t& ranges) {
  WorkName name;
  std::string_view rest = text;
  if (const auto dot = rest.find('.'); dot != std::string_view::npos) {
    name.step = TRY(parse_step(text, rest.substr(dot + 1)));
    rest = rest.substr(0, dot);
  }
  if (const auto underscore = rest.find('_'); underscore != std::string_view::npos) {
    name.target.elements = TRY(parse_elements(text, rest.substr(underscore + 1), ranges));
    rest = rest.substr(0, underscore);
  }
  const auto id = parse_uint(rest);
  if (!id || *id == 0)
    return refused(text, "a number above 0 is expected, as in 12, 12_3 or 12.0");
  if (name.step && name.target.elements && name.target.elements->size() != 1)
    return refused(text, "a step belongs to one job, not to several");
  name.target.job = JobId(*id);
  return name;
}

}  // namespace

Result<IntervalSet> parse_indices(std::string_view text, std::size_t& ranges) {
  const std::uint64_t count = ranges_of(text);
  if (count > ranges)
    return invalid(format("at most {} separate ranges are taken in one request", kIndexRangesMax));
  ranges -= count;
  return IntervalSet::parse(text);
}

Result<WorkName> parse_work_name(std::string_view text) {
  std::size_t ranges = kIndexRangesMax;
  return parse_name(text, ranges);
}

Result<JobTarget> parse_job_target(std::string_view text) {
  std::size_t ranges = kIndexRangesMax;
  return parse_job_target(text, ranges);
}

Result<JobTarget> parse_job_target(std::string_view text, std::size_t& ranges) {
  WorkName name = TRY(parse_name(text, ranges));
  if (name.step)
    return refused(text, "it names a step");
  return std::move(name.target);
}

Result<StepName> parse_step_name(std::string_view text) {
  WorkName name = TRY(parse_work_name(text));
  if (!name.step)
    return refused(text, "a step is expected, as in 12.0");
  return StepName{std::move(name.target), *name.step};
}

Result<std::vector<WorkName>> parse_work_names(std::string_view text) {
  std::vector<WorkName> names;
  std::size_t start = 0;
  bool bracket = false;
  std::size_t ranges = kIndexRangesMax;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '[' || text[i] == ']'))
      bracket = text[i] == '[';
    if (i < text.size() && (bracket || text[i] != ','))
      continue;
    if (names.size() == kJobNamesMax)
      return invalid(format("at most {} jobs are named in one request", kJobNamesMax), "id");
    if (i > start)
      names.push_back(TRY(parse_name(text.substr(start, i - start), ranges)));
    start = i + 1;
  }
  return names;
}

Result<std::vector<std::string>> parse_names(std::string_view text, std::string_view field) {
  std::vector<std::string> names = split(text, ',');
  if (names.size() > kJobNamesMax)
    return invalid(format("at most {} names are given in one request", kJobNamesMax), std::string(field));
  std::set<std::string_view> seen{""};
  std::vector<std::string> out;
  for (const std::string& name : names)
    if (seen.insert(name).second)
      out.push_back(name);
  return out;
}

std::string text_of(const JobTarget& target) {
  if (!target.elements)
    return format("{}", target.job.value);
  const std::string elements = target.elements->text();
  return target.elements->size() == 1 ? format("{}_{}", target.job.value, elements)
                                      : format("{}_[{}]", target.job.value, elements);
}

std::string text_of(const WorkName& name) {
  std::string out = text_of(name.target);
  if (name.step)
    out += "." + step_text(*name.step);
  return out;
}

std::string job_text(const Job& job) {
  return job.array_job ? format("{}_{}", job.array_job.value, job.array_index) : format("{}", job.id.value);
}

std::string step_text(StepNo step) { return step == kBatchStep ? std::string(kBatchName) : format("{}", step); }

}  // namespace lockstep
