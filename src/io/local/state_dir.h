// A state directory: one that a mark says we made. Only such a one is written to, tightened, or removed, and only what
// has a name of ours in it.
//
//   lockstep.id   the mark: the directory's id          public/   for everybody: the API's socket, the CA's certificate
//   lockstep.dir  whether we made the directory, or its mode before us
//   lockstep.deleting  while it is removed
// Everything else is for its owner alone. In a directory of root's others may pass through, to reach public/ and what a
// node serves to jobs; one of an ordinary user is closed to all others.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "io/local/folder.h"

namespace lockstep {

inline constexpr const char* kMarkFile = "lockstep.id";
inline constexpr const char* kOriginFile = "lockstep.dir";

struct StateDir {
  Folder folder;
  std::string id;             // the mark's 32 hexadecimal digits and those of the file's inode
  std::size_t tightened = 0;  // files and directories in it that others could read until now
  bool is_new = false;        // nothing was in it before
  std::string file(std::string_view name) const { return folder.path() + "/" + std::string(name); }
};

// Opens the state directory at an absolute path, or makes one where there is nothing or an empty directory of ours
// alone. One of an older version gets its mark. kDenied: it is somebody else's, holds something else, others may write
// to it, lies in another cluster's, or can be reached through a link or a directory that others could exchange.
Result<StateDir> claim_state_dir(const std::string& path);
// The same, but makes nothing: kNotFound if there is no state directory.
Result<StateDir> find_state_dir(const std::string& path);

// A cluster's directory that holds this path; "" = none. A mark that others could have put there is none.
std::string cluster_above(std::string path);

// The process that holds the lock of a directory of ours ("lock", as controller and agents take it), in words; "" =
// nobody. Waits a moment for one that is just ending.
std::string user_of(const std::string& directory);

// Takes what is too much from the modes of everything of ours in it; how many there were. Claiming does it, too.
std::size_t close_to_others(const StateDir& dir);

// Removes what a claim left that was killed before it had marked the directory, which is as it was then. False: there
// is nothing of that kind, or something else besides.
Result<bool> remove_begun_claim(const std::string& path);

// Whether a removal has begun and not come to its end: no cluster can be started from what is left.
bool is_half_deleted(const Folder& folder);
std::string half_deleted_text(const std::string& path);

// Everything of ours in it, then the directory itself if that is all and we made it.
struct Removed {
  std::vector<std::string>
      kept;  // what is not ours and stays, as paths below the directory: by its name, at every level
  bool directory_stays = false;  // empty: it was there before us, or is a mount point
};
Result<Removed> remove_state_dir(StateDir dir);

// Whether commands and jobs of other users may reach the cluster: where we are root, or were told so. Decides the modes
// of sockets and of the folders that lead to them.
bool serves_others();
void serve_everyone();   // an installed controller has a user of its own; said once, before a directory is claimed
unsigned socket_mode();  // 0666 or 0600
unsigned pass_through_mode();  // of folders: 0711 or 0700

}  // namespace lockstep
