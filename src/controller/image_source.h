// Where a node takes an image from that another node of the same step, or with a task of the same group, takes as well
// (docs/decisions/0018-images-once.md). The nodes form a tree in the order of their names, which is the same for all
// jobs, so whoever waits waits for an earlier one, and never two for each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/links.h"
#include "controller/tickets.h"
#include "model/tables.h"

namespace lockstep {

inline constexpr std::size_t kImageFanOut = 4;  // nodes that one node hands an image to

struct ImageAsk {
  std::optional<StepNo> step;  // else a group's tasks
  std::uint16_t group = 0;
  std::string node;       // who asks
  std::uint64_t hop = 0;  // 0: the node above it in the tree; 1: the root
};

// The nodes that take part: n1, n2 … n10.
std::vector<const Node*> nodes_with_image(const Tables& tables, const Job& job, const ImageAsk& ask);

// Which of so many nodes is asked instead of the registry. Nothing: the one that asks is the root, or has asked it
// already.
std::optional<std::size_t> image_source(std::size_t nodes, std::size_t asking, std::uint64_t hop);

// The same as an agent dials it, with a ticket for its owner's images. kNotFound: take it from the registry.
Result<StepMember> find_image_source(const Tables& tables, const LinkHub& links, const TicketOffice& tickets,
                                     const Job& job, const ImageAsk& ask, Instant now);

}  // namespace lockstep
