// Writes the records of a cluster into a cluster.yaml that somebody wrote, and leaves its comments, order and layout as
// they are: only values that differ are exchanged, keys that are missing are put behind the others of their record, and
// new records behind the others of their section.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/cluster_diff.h"

namespace lockstep {

struct KeptFile {
  std::string text;
  // What the file says otherwise than the cluster still: records that the cluster does not have, accounts that have
  // moved, and what stands where there is no room between brackets.
  std::vector<std::string> left;
};

// Sections that the text does not have are not added. `live` as a file would say it.
Result<KeptFile> keep_cluster_file(std::string_view text, const ClusterFile& live);

}  // namespace lockstep
