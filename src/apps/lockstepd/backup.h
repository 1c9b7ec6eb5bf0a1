// `lockstep backup`: a running or stopped cluster's state of one moment, in a directory of its own
// (docs/decisions/0010-backups.md).
#pragma once

#include "apps/lockstepd/options.h"
#include "base/result.h"

namespace lockstep {

// 0 done, 1 failed, which has been said.
int backup_main(const DaemonOptions& options);
int restore_main(const DaemonOptions& options);

// The directory as the kernel calls it: no links on the way. "" = there is none.
std::string real_path(const std::string& path);
std::string real_place(std::string path);  // the same of the deepest directory on the way that is there

}  // namespace lockstep
