#include "controller/image_source.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {

std::set<NodeId> nodes_with_image(const Tables& tables, const Job& job, const ImageAsk& ask) {
  std::set<NodeId> nodes;
  if (ask.step) {
    if (const Step* step = tables.step(job.id, *ask.step))
      for (const StepPlace& place : step->places) nodes.insert(place.node);
    return nodes;
  }
  if (!job.allocation)
    return nodes;
  for (const Ref<Task>& task : tables.tasks_of(job.id))
    if (task->group == ask.group && task->grant < job.allocation->grants.size() && task->state != TaskState::kEnded)
      nodes.insert(job.allocation->grants[task->grant].node);
  return nodes;
}

std::optional<NodeId> image_source(const std::set<NodeId>& nodes, NodeId asking, std::uint64_t hop) {
  const auto found = nodes.find(asking);
  if (found == nodes.end() || found == nodes.begin() || hop > 1)
    return std::nullopt;
  const auto place = static_cast<std::size_t>(std::distance(nodes.begin(), found));
  const std::size_t above = (place - 1) / kImageFanOut;
  if (hop == 1 && above == 0)
    return std::nullopt;
  return *std::next(nodes.begin(), static_cast<std::ptrdiff_t>(hop == 1 ? 0 : above));
}

Result<StepMember> find_image_source(const Tables& tables, const LinkHub& links, const TicketOffice& tickets,
                                     const Job& job, const ImageAsk& ask, Instant now) {
  const std::set<NodeId> nodes = nodes_with_image(tables, job, ask);
  const auto asking = std::find_if(nodes.begin(), nodes.end(), [&](NodeId id) {
    const Node* node = tables.node(id);
    return node && node->meta.name == ask.node;
  });
  const auto source = asking == nodes.end() ? std::nullopt : image_source(nodes, *asking, ask.hop);
  const Node* node = source ? tables.node(*source) : nullptr;
  const User* user = tables.user(job.spec->user);
  if (!node || !user)
    return not_found(format("node {} takes the images of job {} from their registry", ask.node, job.id.value));
  const LinkHub::PeerAddress peer = links.peer_address(node->meta.name);
  if (peer.port == 0)
    return not_found(format("node {} cannot be dialled", node->meta.name));
  StepTicket about;
  about.job = job.id;
  about.attempt = job.attempt;
  about.step = ask.step.value_or(kBatchStep);
  about.uid = user->uid;
  return StepMember{node->meta.name,  peer.host, peer.port,
                    peer.certificate, {},        tickets.issue(std::move(about), node->meta.name, kStepImages, now)};
}

}  // namespace lockstep
