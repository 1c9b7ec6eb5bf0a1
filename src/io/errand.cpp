#include "io/errand.h"

#include <thread>

#include "base/check.h"
#include "base/thread.h"

namespace lockstep {

struct Errand::Runner {
  std::thread thread;
  ~Runner() { thread.join(); }
};

Errand::Errand(EventLoop& loop) : loop_(loop) {}
Errand::~Errand() = default;

Result<void> Errand::start(std::function<Result<void>()> work, std::function<void(Result<void>)> done) {
  CHECK(!is_out_, "one errand at a time");
  runner_.reset();
  auto thread = TRY(start_thread([this, work = std::move(work), done = std::move(done), here = std::weak_ptr(here_)] {
    loop_.post([this, done, here, result = work()] {
      if (here.expired())
        return;
      is_out_ = false;
      done(result);
    });
  }));
  runner_ = std::make_unique<Runner>(std::move(thread));
  is_out_ = true;
  return {};
}

}  // namespace lockstep
