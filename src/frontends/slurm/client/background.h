// Blocking calls beside a loop that must not block: each runs on a thread of its own and shows on a descriptor when it
// is done. A call nobody waits for any more ends by itself.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"

namespace lockstep {

template <class T>
class Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<T()> work) : shared_(std::make_shared<Shared>()) {
    std::thread([shared = shared_, work = std::move(work)] {
      T value = work();
      {
        const std::lock_guard lock(shared->mutex);
        shared->value.emplace(std::move(value));
      }
      const std::uint64_t one = 1;
      (void)!::write(shared->fd, &one, sizeof one);
    }).detach();
  }

  explicit operator bool() const { return shared_ != nullptr; }
  int fd() const { return shared_ ? shared_->fd : -1; }  // readable when done
  // The value, once; then this waits for nothing any more.
  std::optional<T> take() {
    if (!shared_)
      return std::nullopt;
    std::optional<T> out;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->value)
        out.emplace(std::move(*shared_->value));
    }
    if (out)
      shared_.reset();
    return out;
  }

 private:
  struct Shared {
    Shared() : fd(::eventfd(0, EFD_CLOEXEC)) { CHECK(fd >= 0, "no descriptor is left"); }
    ~Shared() { ::close(fd); }
    std::mutex mutex;
    std::optional<T> value;
    int fd;
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep
