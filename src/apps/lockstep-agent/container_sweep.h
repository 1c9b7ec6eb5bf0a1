// Removes what containers of jobs have left on this node: what steps put out of the way when they ended, and of jobs
// that have gone containers that had a name. Images stay, for the next job of their user. Those files lie in folders of
// the users, where looking alone could hold us up: a process with the user's rights looks and removes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/ids.h"
#include "shim/orphans.h"
#include "wire/store_limits.h"

namespace lockstep {

// For the programs that fill the users' folders. Makes the folder as shims do.
Result<void> write_store_limits(const std::string& folder, const StoreLimits& limits);

class ContainerSweep {
 public:
  // folder: where each user has one of his own, called as the uid. program: lockstep-container. At first it is not
  // known who has left something: everybody is asked once.
  // socket: of the node's agent, for who asks the front end.
  ContainerSweep(std::string folder, std::string program, std::string socket);

  void used(std::uint32_t uid) { due_[uid] = {}; }  // work of this user begins in a container
  // Begins to remove. jobs_here: those of a user that have not gone. While there are any, and for a while after, one
  // looks again: what is fresh is left alone (container/sandbox_sweep.h).
  void look(const std::function<std::vector<JobId>(std::uint32_t uid)>& jobs_here, Instant boot_now);

  // Folders of volumes that have gone are removed (container/lasting_sweep.h), now and then.
  void look_at_lasting(Instant boot_now);
  // Images and layers that no container uses go, of each user the ones first that were unused for longest, until so
  // much is free of what that user has.
  void drop_images(std::uint64_t bytes, Instant boot_now);

 private:
  void reap(Instant boot_now);
  bool run(std::uint32_t uid, std::vector<std::string> words, Instant boot_now);

  std::string folder_, program_, socket_;
  Instant lasting_due_;
  std::map<std::uint32_t, std::optional<Instant>> due_;  // when there were jobs last; nothing: since the last look
  struct Removal {
    pid_t pid = 0;
    Instant began;
    std::unique_ptr<OwnChild> child;
  };
  std::map<std::uint32_t, Removal> removing_;
};

}  // namespace lockstep
