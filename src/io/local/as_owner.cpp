#include "io/local/as_owner.h"

#include <grp.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace lockstep {

namespace {

// Of this thread alone, which the C library's is not.
long set_groups(const std::vector<gid_t>& groups) { return ::syscall(SYS_setgroups, groups.size(), groups.data()); }

}  // namespace

AsOwner::AsOwner(uid_t uid, gid_t gid) { become(uid, gid); }

AsOwner::AsOwner(int directory) {
  struct stat found {};
  if (::fstat(directory, &found) == 0)
    become(found.st_uid, found.st_gid);
}

void AsOwner::become(uid_t uid, gid_t gid) {
  if (::geteuid() != 0 || uid == 0)
    return;
  groups_.resize(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  CHECK(::getgroups(static_cast<int>(groups_.size()), groups_.data()) == static_cast<int>(groups_.size()));
  uid_ = static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1)));
  gid_ = static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1)));
  if (set_groups({gid}) != 0)
    return;
  is_other_ = true;
  ::setfsgid(gid);
  ::setfsuid(uid);
  // The root of a user namespace can be nobody who is not in it. It has the rights of one user anyhow.
  if (::setfsuid(static_cast<uid_t>(-1)) != static_cast<int>(uid))
    come_back();
}

AsOwner::~AsOwner() {
  if (is_other_)
    come_back();
}

void AsOwner::come_back() {
  is_other_ = false;
  ::setfsuid(uid_);
  ::setfsgid(gid_);
  CHECK(set_groups(groups_) == 0);
}

}  // namespace lockstep
