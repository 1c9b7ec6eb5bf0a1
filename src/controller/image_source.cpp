#include "controller/image_source.h"

#include <algorithm>

#include "base/text.h"
#include "model/job.h"

namespace lockstep {

namespace {

bool comes_before(const Node* a, const Node* b) {
  return std::pair(a->meta.name.size(), std::string_view(a->meta.name)) <
         std::pair(b->meta.name.size(), std::string_view(b->meta.name));
}

std::vector<NodeId> places_of(const Tables& tables, const Job& job, const ImageAsk& ask) {
  std::vector<NodeId> places;
  if (ask.step) {
    if (const Step* step = tables.step(job.id, *ask.step))
      for (const StepPlace& place : step->places) places.push_back(place.node);
  } else if (job.allocation) {
    for (const Ref<Task>& task : tables.tasks_of(job.id))
      if (task->group == ask.group && task->grant < job.allocation->grants.size() && task->state != TaskState::kEnded)
        places.push_back(job.allocation->grants[task->grant].node);
  }
  return places;
}

}  // namespace

std::vector<const Node*> nodes_with_image(const Tables& tables, const Job& job, const ImageAsk& ask) {
  std::vector<const Node*> nodes;
  for (const NodeId place : places_of(tables, job, ask))
    if (const Node* node = tables.node(place))
      nodes.push_back(node);
  std::sort(nodes.begin(), nodes.end(), comes_before);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

std::optional<std::size_t> image_source(std::size_t nodes, std::size_t asking, std::uint64_t hop) {
  if (asking == 0 || asking >= nodes || hop > 1)
    return std::nullopt;
  const std::size_t above = (asking - 1) / kImageFanOut;
  if (hop == 0)
    return above;
  return above == 0 ? std::nullopt : std::optional<std::size_t>(0);
}

Result<StepMember> find_image_source(const Tables& tables, const LinkHub& links, const TicketOffice& tickets,
                                     const Job& job, const ImageAsk& ask, Instant now) {
  const auto nodes = nodes_with_image(tables, job, ask);
  const auto asking =
      std::find_if(nodes.begin(), nodes.end(), [&](const Node* node) { return node->meta.name == ask.node; });
  const auto source = image_source(nodes.size(), static_cast<std::size_t>(asking - nodes.begin()), ask.hop);
  const User* user = tables.user(job.spec->user);
  if (!source || !user)
    return not_found(format("node {} takes the images of job {} from their registry", ask.node, job.id.value));
  const Node* node = nodes[*source];
  const LinkHub::PeerAddress peer = links.peer_address(node->meta.name);
  if (peer.port == 0 || node->address.empty())
    return not_found(format("node {} cannot be dialled", node->meta.name));
  StepTicket about;
  about.job = job.id;
  about.attempt = job.attempt;
  about.step = ask.step.value_or(kBatchStep);
  about.uid = user->uid;
  return StepMember{node->meta.name,
                    node->address,
                    peer.port,
                    peer.certificate,
                    {},
                    tickets.issue(std::move(about), node->meta.name, kStepImages, now)};
}

}  // namespace lockstep
