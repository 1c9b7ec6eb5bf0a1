#include "model/work_id.h"

#include "base/text.h"
#include "model/hook_part.h"

namespace lockstep {

namespace {

struct PartText {
  std::string operator()(ScriptPart) const { return "batch"; }
  std::string operator()(StepPart part) const {
    switch (part.step) {
      case kPrologStep: return "prolog";
      case kEpilogStep: return "epilog";
      case kMpsStep: return "mps";
      case kStageInStep: return "stage_in";
      case kStageOutStep: return "stage_out";
      default: return format("{}", part.step);
    }
  }
  std::string operator()(TaskPart part) const {
    return format("task-{}.{}.{}", part.group, part.index, part.incarnation);
  }
};

std::optional<WorkPart> parse_task(std::string_view text) {
  const auto numbers = split(text, '.');
  if (numbers.size() != 3)
    return std::nullopt;
  const auto group = parse_uint(numbers[0]), index = parse_uint(numbers[1]), incarnation = parse_uint(numbers[2]);
  if (!group || !index || !incarnation || *group > UINT16_MAX || *index > UINT32_MAX || *incarnation > UINT32_MAX)
    return std::nullopt;
  return TaskPart{static_cast<std::uint16_t>(*group), static_cast<std::uint32_t>(*index),
                  static_cast<std::uint32_t>(*incarnation)};
}

std::optional<WorkPart> parse_part(const std::vector<std::string>& words) {
  if (words.size() == 2)
    return words[0] == "task" ? parse_task(words[1]) : std::nullopt;
  if (words.size() != 1)
    return std::nullopt;
  if (words[0] == "batch")
    return ScriptPart{};
  if (words[0] == "prolog")
    return StepPart{kPrologStep};
  if (words[0] == "epilog")
    return StepPart{kEpilogStep};
  if (words[0] == "mps")
    return StepPart{kMpsStep};
  if (words[0] == "stage_in")
    return StepPart{kStageInStep};
  if (words[0] == "stage_out")
    return StepPart{kStageOutStep};
  const auto step = parse_uint(words[0]);
  return step && *step <= INT32_MAX ? std::optional<WorkPart>(StepPart{static_cast<StepNo>(*step)}) : std::nullopt;
}

}  // namespace

std::string text_of(const WorkId& work) {
  return format("{}-{}-{}", work.job.value, work.attempt, std::visit(PartText{}, work.part));
}

std::optional<WorkId> parse_work_id(std::string_view text) {
  const auto words = split(text, '-');
  if (words.size() < 3)
    return std::nullopt;
  const auto job = parse_uint(words[0]), attempt = parse_uint(words[1]);
  const auto part = parse_part({words.begin() + 2, words.end()});
  if (!job || !attempt || *attempt > UINT32_MAX || !part)
    return std::nullopt;
  const WorkId work{JobId{*job}, static_cast<AttemptNo>(*attempt), *part};
  return text_of(work) == text ? std::optional(work) : std::nullopt;
}

}  // namespace lockstep
