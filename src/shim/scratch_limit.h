// A directory that may hold so much and no more: a subvolume with a limit on btrfs, a project with a quota on XFS and
// ext4. Where the file system counts nothing, or was told not to, it is an ordinary directory. Sources:
// btrfs-quota(8), ioctl_btrfs of btrfs-ioctl(2), quotactl(2), ioctl_xfs_fsgetxattr(2).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace lockstep {

enum class ScratchLimit : unsigned char { kNone, kSubvolume, kProject };

// Makes DIRECTORY/name, closed to everybody but us. mb: 0 = no limit is asked for. What holds it is returned. kConflict
// when there is something of that name.
Result<ScratchLimit> make_scratch(int directory, const std::string& name, std::int64_t mb);

// Before its tree is removed: a subvolume goes as a whole, at once, and takes no limit with it to whoever comes next.
// True: nothing is left.
bool drop_scratch(int directory, const std::string& name);

// Whether the file system holds anybody to a limit there: tried out in a directory that is removed again.
Result<ScratchLimit> try_scratch_limit(int directory);

}  // namespace lockstep
