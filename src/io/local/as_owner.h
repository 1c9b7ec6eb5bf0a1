// AsOwner: while it lives, root asks for files with the rights of a directory's owner. What root reads or writes for a
// person in a directory that another user can change, it finds by names that this user chose: a link there must lead
// root no further than it leads them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace lockstep {

class AsOwner {
 public:
  // Of this thread alone. Nothing changes where we are not root, or the owner is.
  AsOwner(uid_t uid, gid_t gid);
  explicit AsOwner(int directory);  // of a descriptor
  ~AsOwner();
  AsOwner(const AsOwner&) = delete;
  AsOwner& operator=(const AsOwner&) = delete;

 private:
  void become(uid_t uid, gid_t gid);
  void come_back();

  bool is_other_ = false;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  std::vector<gid_t> groups_;
};

}  // namespace lockstep
