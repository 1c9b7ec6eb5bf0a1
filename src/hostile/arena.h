// Arena: a whole controller in this process, on real SQLite files, a real loop and its real threads. It can be stopped
// and opened again on the same files, as after a restart.
#pragma once

#include <memory>

#include "base/result.h"
#include "controller/server.h"
#include "hostile/caller.h"
#include "io/temp_dir.h"

namespace lockstep::hostile {

class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;

  Result<void> open();
  void close();

  // Hands the request over and waits for its outcome, at most so long; false: it is still open.
  bool call(HttpRequest request, const std::shared_ptr<Call>& call, Duration patience);
  // Runs the task on the loop's thread and waits for its end.
  void on_loop(std::function<void()> task);
  EventLoop& loop() { return *loop_; }
  const Routes& routes() const { return *routes_; }  // of this opening

 private:
  TempDir dir_;
  std::unique_ptr<EventLoop> loop_;
  struct Stores;
  std::unique_ptr<Stores> stores_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<ControllerLoop> controller_;
  std::shared_ptr<const Routes> routes_;
};

}  // namespace lockstep::hostile
