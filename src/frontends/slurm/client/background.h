// Blocking calls beside a loop that must not block: each runs on a thread of its own and shows on a descriptor when it
// is done. A call nobody waits for any more ends by itself.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/check.h"

namespace lockstep {

void run_detached(std::function<void()> work);  // on a thread of its own

template <class T>
class Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<T()> work) : shared_(std::make_shared<Shared>()) {
    run_detached([shared = shared_, work = std::move(work)] {
      shared->value.emplace(work());
      shared->done.store(true, std::memory_order_release);
      const std::uint64_t one = 1;
      (void)!::write(shared->fd, &one, sizeof one);
    });
  }

  explicit operator bool() const { return shared_ != nullptr; }
  int fd() const { return shared_ ? shared_->fd : -1; }  // readable when done
  // The value, once; then this waits for nothing any more.
  std::optional<T> take() {
    if (!shared_ || !shared_->done.load(std::memory_order_acquire))
      return std::nullopt;
    std::optional<T> out(std::move(*shared_->value));
    shared_.reset();
    return out;
  }

 private:
  struct Shared {
    Shared() : fd(::eventfd(0, EFD_CLOEXEC)) { CHECK(fd >= 0, "no descriptor is left"); }
    ~Shared() { ::close(fd); }
    std::optional<T> value;  // the thread's until done
    std::atomic<bool> done{false};
    int fd;
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep
