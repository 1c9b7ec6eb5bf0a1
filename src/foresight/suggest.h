// Inside foresight: the search for the smallest changes of a waiting job that make it start sooner.
#pragma once

#include "foresight/explain.h"

namespace lockstep {

struct Search {
  const Tables& tables;  // with the job
  ClusterCopy::Clock clock;
  CoreSettings core;
  ExplainSettings settings;
  JobId job;
  Foreseen as_is;             // what is foreseen without a change
  std::uint32_t nodes_free;   // how many nodes could take a part of it now; a first guess
  std::vector<JobId> behind;  // waiting jobs that its place in the order keeps from delaying it
};

// Fills suggestions, plans and all_tried.
void suggest(const Search& search, Explanation& into);

}  // namespace lockstep
