// Hands images of a user, which lie on this node, to the same user's programs on other nodes. What reads his files is a
// process with his rights, one for each stream; we only pass its bytes on (docs/decisions/0018-images-once.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "agent/splice.h"
#include "base/time.h"
#include "ports/loop.h"
#include "shim/orphans.h"
#include "wire/step_route.h"

namespace lockstep {

class ImageServers {
 public:
  // folder: where each user has one of his own, called as the uid. program: lockstep-container.
  ImageServers(EventLoop& loop, Splices& splices, std::string node, std::string folder, std::string program);
  ~ImageServers();
  ImageServers(ImageServers&&) = delete;

  // For whoever holds a ticket that was verified. Dropping the stream tells that there is nothing.
  void serve(const StepTicket& ticket, std::unique_ptr<Stream> stream, Instant boot_now);
  // Now and then: processes that have ended, and one that its user has stopped.
  void reap(Instant boot_now);

 private:
  struct Server {
    std::uint32_t uid = 0;
    Instant began;
    std::unique_ptr<OwnChild> child;
  };
  EventLoop& loop_;
  Splices& splices_;
  std::string node_, folder_, program_;
  std::map<pid_t, Server> servers_;
};

}  // namespace lockstep
