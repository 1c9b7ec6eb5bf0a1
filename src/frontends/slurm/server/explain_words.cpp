#include "frontends/slurm/server/explain_words.h"

#include "base/text.h"
#include "frontends/slurm/server/show_text.h"

namespace lockstep::slurm {

namespace {

struct Words {
  std::string change;
  std::string settings;  // of `scontrol update`; "" = it cannot change that
};

std::string limit_words(Duration limit) { return limit >= kForever ? "UNLIMITED" : show_span(limit.seconds()); }

std::string counted(std::uint32_t count, std::string_view noun) {
  return format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string_view device_option(remedy::DevicesPer per) {
  switch (per) {
    case remedy::DevicesPer::kNode: return "--gpus-per-node";
    case remedy::DevicesPer::kTask: return "--gpus-per-task";
    case remedy::DevicesPer::kJob: return "--gpus";
  }
  return "";
}

struct WithoutRow {
  remedy::Without::What what;
  std::string_view before;  // the value
  bool has_value;
  std::string_view settings;
};
using What = remedy::Without::What;
constexpr WithoutRow kWithout[] = {
    {What::kDependency, "without its dependency", false, "Dependency="},
    {What::kBegin, "without its begin time", false, "StartTime=now"},
    {What::kConstraint, "without the constraint ", true, "Features="},
    {What::kOnlyNodes, "on other nodes than ", true, "ReqNodeList="},
    {What::kExcludedNodes, "also on ", true, "ExcNodeList="},
    {What::kWholeNodes, "without --exclusive", false, ""},
    {What::kReservation, "without the reservation ", true, "ReservationName="},
    {What::kLicences, "without the licences ", true, ""},
    {What::kLevel, "without --topology=", true, ""},
    {What::kSwitches, "without --switches", false, ""},
    {What::kSegment, "without --segment", false, ""},
    {What::kTopology, "on nodes anywhere", false, ""},
};

struct Wording {
  Words operator()(const remedy::Release&) const { return {"released", ""}; }
  Words operator()(const remedy::Without& r) const {
    for (const WithoutRow& row : kWithout)
      if (row.what == r.what)
        return {format("{}{}", row.before, row.has_value ? r.value : ""), std::string(row.settings)};
    return {};
  }
  Words operator()(const remedy::FewerNodes& r) const {
    return {format("{} instead of {}", counted(r.nodes, "node"), r.instead_of),
            r.tasks == 0 ? format("NumNodes={}", r.nodes) : format("NumNodes={} NumTasks={}", r.nodes, r.tasks)};
  }
  Words operator()(const remedy::FewerTasks& r) const {
    return {format("{} instead of {}", counted(r.tasks, "task"), r.instead_of), format("NumTasks={}", r.tasks)};
  }
  Words operator()(const remedy::ShorterLimit& r) const {
    const std::string limit = limit_words(r.limit);
    const std::string likely = r.likely.us ? format(" (it will likely run {})", limit_words(r.likely)) : "";
    return {format("limit {} instead of {}{}", limit, limit_words(r.instead_of), likely),
            format("TimeLimit={}", limit)};
  }
  Words operator()(const remedy::OtherPartition& r) const {
    return {format("partition {}", r.partition), format("Partition={}", r.partition)};
  }
  Words operator()(const remedy::AnyDeviceType& r) const {
    return {format("any GPU instead of {} ({}={})", r.type, device_option(r.per), r.count), ""};
  }
  Words operator()(const remedy::FewerDevices& r) const {
    return {format("{}={} instead of {}", device_option(r.per), r.count, r.instead_of), ""};
  }
  Words operator()(const remedy::WiderLevel& r) const {
    return {format("level {} instead of {} (--topology={})", r.level, r.instead_of, r.level), ""};
  }
  Words operator()(const remedy::MoreSwitches& r) const {
    return {format("--switches={} instead of {}", r.switches, r.instead_of), ""};
  }
  Words operator()(const remedy::MoveJobs& r) const {
    std::vector<std::string> names;
    for (const JobId id : r.jobs) names.push_back(format("{}", id.value));
    return {format("moving job{} {} (checkpointable, at most {} GPU-minutes lost)", names.size() > 1 ? "s" : "",
                   join(names, " and "), r.device_minutes_lost),
            ""};
  }
};

std::string topic_words(const Explanation& explanation) {
  const bool is_shut =
      explanation.expected.reason == "PartitionDown" || explanation.expected.reason == "PartitionInactive";
  if (is_shut && !explanation.funnels.empty())
    return format(" (an administrator opens it: scontrol update PartitionName={} State=UP)",
                  explanation.funnels.front().partition);
  switch (explanation.topic) {
    case ReasonTopic::kNone: break;
    case ReasonTopic::kBeginTime: return " (--begin)";
    case ReasonTopic::kTimeLimit: return " (--time, or scontrol update TimeLimit=)";
    case ReasonTopic::kAccounting: return format("; sacct -j {} has its record", explanation.job.value);
  }
  return "";
}

}  // namespace

void put_in_words(Explanation& explanation) {
  for (Suggestion& suggestion : explanation.suggestions) {
    Words words = std::visit(Wording{}, suggestion.remedy);
    suggestion.change = std::move(words.change);
    if (std::holds_alternative<remedy::Release>(suggestion.remedy))
      suggestion.command = format("scontrol release {}", explanation.job.value);
    else if (!words.settings.empty())
      suggestion.command = format("scontrol update JobId={} {}", explanation.job.value, words.settings);
  }
  const std::string topic = topic_words(explanation);
  if (explanation.because.ends_with('.'))
    explanation.because.insert(explanation.because.size() - 1, topic);
  else
    explanation.because += topic;
}

}  // namespace lockstep::slurm
