// A Slurm site's files become one cluster file, and a report that accounts for every setting in them.
#pragma once

#include <string>

#include "frontends/slurm/import/report.h"

namespace lockstep::slurm {

// The files of a site. An optional one that is empty is not looked for.
struct ImportPaths {
  std::string slurm_conf;
  std::string gres_conf, topology_conf;
  bool gres_must = false, topology_must = false;  // somebody named it: it has to be there, and it counts
  std::string accounts;                           // what `sacctmgr dump` wrote
  std::string qos;                                // what `sacctmgr -P show qos` printed
};

struct Imported {
  ClusterFile file;
  Report report;
};

// Errors: a file that cannot be read or is none of Slurm's, and what Slurm would not start with: a name that two nodes
// or partitions have, a partition with a node that no line defines. They begin with FILE:LINE:COLUMN where there is
// one.
Result<Imported> import_slurm(const ImportPaths& paths, const ReadFile& read);

}  // namespace lockstep::slurm
