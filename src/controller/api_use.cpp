// The API's answers about what nodes measured last: of a step or script, and of a node.
#include "base/text.h"
#include "controller/api.h"
#include "model/step.h"
#include "views/job_names.h"

namespace lockstep {

namespace {

// The names are those of an ended step's record (model/job_fields.h).
std::string json_of(const WorkUse& use) {
  return format(
      "{{\"user_us\":{},\"system_us\":{},\"read_bytes\":{},\"written_bytes\":{},\"tasks\":{},\"memory_peak\":{},"
      "\"memory_sum\":{},\"memory_peak_rank\":{},\"least_cpu_us\":{},\"least_cpu_rank\":{},\"gpu_us\":{},"
      "\"gpu_memory_peak\":{}}}",
      use.user.us, use.system.us, use.read_bytes, use.written_bytes, use.tasks, use.memory_peak, use.memory_sum,
      use.memory_peak_rank, use.least_cpu.us, use.least_cpu_rank, use.gpu.us, use.gpu_memory_peak);
}

std::string json_of(const NodeMeasures& measures, Duration wall_offset) {
  std::string out = format("{{\"at_us\":{},\"load_percent\":{},\"memory_free_mb\":{},\"devices\":[",
                           (measures.at + wall_offset).us, measures.load_percent, measures.memory_free_mb);
  for (const DeviceSample& one : measures.devices)
    out += format("{}{{\"device\":{},\"busy_percent\":{},\"memory_mb\":{},\"watts\":{},\"celsius\":{}}}",
                  out.back() == '[' ? "" : ",", one.device, one.busy_percent, one.memory_mb, one.watts, one.celsius);
  return out + "]}";
}

}  // namespace

void Api::step_use(Visit visit) {
  const auto name = parse_step_name(visit.names.at(0));
  if (!name.ok())
    return visit.refuse(name.error());
  const Job* job = world_.view.find(name->target);
  const bool is_script = name->step == kBatchStep;
  if (!job || (!is_script && !world_.view.tables().step(job->id, name->step)))
    return visit.refuse(not_found(format("there is no step {}", visit.names.at(0))));
  const WorkUse use =
      world_.view.live().work(*job, is_script ? WorkPart(ScriptPart{}) : WorkPart(StepPart{name->step}));
  visit.answer(format("{{\"use\":{}}}", use.tasks > 0 ? json_of(use) : "null"));
}

void Api::node_use(Visit visit) {
  const Node* node = world_.view.tables().node(visit.names.at(0));
  if (!node)
    return visit.refuse(not_found(format("there is no node {}", visit.names.at(0))));
  const NodeMeasures* measures = world_.view.live().node(node->id);
  visit.answer(format("{{\"use\":{}}}", measures ? json_of(*measures, world_.clock.wall_offset()) : "null"));
}

}  // namespace lockstep
