// ControllerLoop: a whole controller in one process. Threads that share nothing but immutable records and talk by
// mailboxes: I/O (HTTP, agents' links, the live view), core (engine and node desk), actors, history, reads, questions;
// and one for fence hooks, which may take their time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/api.h"
#include "controller/composer.h"
#include "ports/clock.h"

namespace lockstep {

struct ControllerSettings {
  EngineSettings engine;
  NodeDeskSettings desk;
  ApiSettings api;
  Duration client_grace = seconds(60);       // an interactive job whose client has been away this long is ended
  Duration step_client_grace = seconds(20);  // likewise a step that ends with its client
  // A client behind a node that is silent itself is given this long instead: nobody knows whether it is there.
  Duration client_node_grace = minutes(15);
  // Told by open(), often: what it does, at which entry of the log and of how many.
  std::function<void(const std::string& what, std::uint64_t entry, std::uint64_t last)> starting;
  // On the I/O thread, once: another controller writes the log. This one answers with errors from then on, and must
  // end.
  std::function<void(const std::string& why)> deposed;
  std::function<void(const std::vector<std::string>&)> tell;  // lines for a log, of every batch; on history's thread
};

// Says why it is certain that the node has stopped, or nothing. silence: how long the node has not been heard although
// it could have been; a hook that switches machines off waits for as much of it as its administrator wants.
using FenceHook = std::function<std::optional<std::string>(const std::string& node_name, Duration silence)>;

// The field of an error that accounting's store is to blame for.
inline constexpr const char* kHistoryField = "history";

class ControllerLoop {
 public:
  struct Parts {
    EventLoop& loop;
    Log& log;
    BlobStore& blobs;
    HistoryStore& history;
    const Clock& clock;
  };
  // Loads the log and brings history up to date; nothing runs before start().
  static Result<std::unique_ptr<ControllerLoop>> open(Parts parts, ControllerSettings settings, ApiPowers powers,
                                                      ComposerHooks hooks, FenceHook fence_hook);
  ~ControllerLoop();

  void start();
  void handle(std::shared_ptr<HttpExchange> exchange);  // on the loop's thread
  // After the loop has stopped: commits what is queued and ends the threads.
  void stop();

 private:
  struct Inner;
  explicit ControllerLoop(std::unique_ptr<Inner> inner);
  std::unique_ptr<Inner> inner_;
};

}  // namespace lockstep
