#include "frontends/kube/kinds/node_change.h"

#include "base/text.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_terms.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

std::optional<UpdateNode> node_change(const Node& node, const json::object* old, const json::object& tree,
                                      std::string_view who) {
  UpdateNode out{.name = node.meta.name};
  bool any = false;
  if (Labels labels = labels_of_node(tree); labels != node.labels) {
    out.labels = std::move(labels);
    any = true;
  }
  std::vector<NodeMark> marks = marks_of_node(tree);
  for (const PressureCondition& one : pressures_of(node))
    if (one.is)
      marks.push_back({one.taint, "", NodeMark::Effect::kKeepsOff});
  if (marks != node.marks) {
    out.marks = std::move(marks);
    any = true;
  }
  if (std::vector<Counted> counted = counted_of_node(tree, node); counted != node.added_counted) {
    out.added_counted = std::move(counted);
    any = true;
  }
  const bool drains = flag_in(spec_of(tree), "unschedulable");
  if (old && drains != flag_in(spec_of(*old), "unschedulable") && drains != node_drained(node)) {
    out.drain = drains;
    if (drains)
      out.reason = format("cordoned by {}", who);
    any = true;
  }
  return any ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace lockstep::kube
