// WorkId: the one name of what runs on a node, from the launch to the shim, its folder, its output and its end: a job's
// script, a step, or one life of a task.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "model/ids.h"

namespace lockstep {

struct ScriptPart {
  friend auto operator<=>(const ScriptPart&, const ScriptPart&) = default;
};
struct StepPart {
  StepNo step = 0;
  friend auto operator<=>(const StepPart&, const StepPart&) = default;
};
struct TaskPart {
  std::uint16_t group = 0;
  std::uint32_t index = 0, incarnation = 0;
  friend auto operator<=>(const TaskPart&, const TaskPart&) = default;
};
using WorkPart = std::variant<ScriptPart, StepPart, TaskPart>;

struct WorkId {
  JobId job;
  AttemptNo attempt = 0;
  WorkPart part;
  friend auto operator<=>(const WorkId&, const WorkId&) = default;
};

inline bool is_script(const WorkId& work) { return std::holds_alternative<ScriptPart>(work.part); }
inline const StepPart* step_of(const WorkId& work) { return std::get_if<StepPart>(&work.part); }
inline const TaskPart* task_of(const WorkId& work) { return std::get_if<TaskPart>(&work.part); }

// What of a job a signal is for: its steps and tasks, the shell of its script alone, or every process.
enum class SignalReach : unsigned char { kSteps, kScript, kEverything };

// "12-1-batch", "12-1-0", "12-1-task-0.3.1", "12-1-prolog": job, attempt, then the step (model/hook_part.h: a program
// of the site), or group, index and incarnation. Shims' folders are called so: what was written once is read for ever.
std::string text_of(const WorkId& work);
std::optional<WorkId> parse_work_id(std::string_view text);  // of nothing but such a text

}  // namespace lockstep
