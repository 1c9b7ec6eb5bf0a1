// What `sacctmgr dump CLUSTER` writes: accounts, their users, QOS, and limits of all of them, a line each:
//   Cluster - 'alpha':Fairshare=1:QOS='normal'
//   Parent - 'root'
//   Account - 'physics':Description='physics':GrpTRES='gres/gpu=32'
//   Parent - 'physics'
//   User - 'ann':DefaultAccount='physics':Fairshare=1:MaxJobs=20
#pragma once

#include <string>
#include <string_view>

#include "frontends/slurm/import/report.h"

namespace lockstep::slurm {

Result<void> read_accounts(ClusterFile& file, Report& report, const std::string& name, std::string_view text);

// What `sacctmgr -P show qos` prints, since older dumps have no QOS: "Name|Priority|…", then a line each. It comes
// before read_accounts(), which leaves out those that are there by then.
Result<void> read_qos_table(ClusterFile& file, Report& report, const std::string& name, std::string_view text);

}  // namespace lockstep::slurm
