#include "shim/task_starter.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "base/check.h"

namespace lockstep {

struct TaskStarter::Shared {
  std::vector<TaskStart*> starts;
  std::atomic<std::size_t> done{0}, began{0};
  std::atomic<bool> cancelled{false}, held{false};
  int event = -1;
  ~Shared() { ::close(event); }

  void work() {
    for (std::size_t i = 0; i < starts.size(); ++i) {
      held.wait(true);
      if (!cancelled) {
        began = i + 1;
        starts[i]->run();
      }
      done = i + 1;
      ::eventfd_write(event, 1);
    }
  }
};

namespace {

constexpr std::size_t kStackBytes = 256 << 10;

}  // namespace

Result<std::unique_ptr<TaskStarter>> TaskStarter::begin(std::vector<TaskStart*> starts) {
  CHECK(!starts.empty() && std::find(starts.begin(), starts.end(), nullptr) == starts.end());
  auto shared = std::make_shared<Shared>();
  shared->starts = std::move(starts);
  shared->event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (shared->event < 0)
    return Error{Errc::kIo, std::string("eventfd: ") + ::strerror(errno), {}};
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  auto held = std::make_unique<std::shared_ptr<Shared>>(shared);
  pthread_t thread;
  const int error = ::pthread_create(
      &thread, &attributes,
      [](void* argument) -> void* {
        const std::unique_ptr<std::shared_ptr<Shared>> mine(static_cast<std::shared_ptr<Shared>*>(argument));
        (*mine)->work();
        for (;;) ::pause();
      },
      held.get());
  ::pthread_attr_destroy(&attributes);
  if (error != 0)
    return Error{Errc::kExhausted, std::string("cannot make a thread: ") + ::strerror(error), {}};
  held.release();
  return std::unique_ptr<TaskStarter>(new TaskStarter(std::move(shared)));
}

TaskStarter::~TaskStarter() = default;

int TaskStarter::fd() const { return shared_->event; }

std::size_t TaskStarter::done() {
  eventfd_t count = 0;
  ::eventfd_read(shared_->event, &count);
  const std::size_t done = shared_->done;
  CHECK(done <= shared_->starts.size());
  return done;
}

void TaskStarter::cancel() { shared_->cancelled = true; }

void TaskStarter::hold(bool held) {
  shared_->held = held;
  shared_->held.notify_all();
}

bool TaskStarter::began(std::size_t i) const {
  CHECK(i < shared_->done, "asked of a start that is not through");
  return i < shared_->began;
}

}  // namespace lockstep
