// Blocking calls beside a loop that must not block: each runs on a thread of its own and shows on a descriptor when it
// is done. A call nobody waits for any more ends by itself. Where no thread can be made, the call is done at once and
// its value is that error.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"

namespace lockstep::slurm {

Result<void> run_detached(std::function<void()> work);  // on a thread of its own
bool has_descriptors(int count);                        // so many can still be made
// Says that the process has no descriptor left, and ends it. What it holds in the cluster is freed as its connections
// close.
[[noreturn]] void end_without_descriptors();

template <class T>  // a Result
class Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<T()> work) : shared_(std::make_shared<Shared>()) {
    const auto begun = run_detached([shared = shared_, work = std::move(work)] { shared->finish(work()); });
    if (begun)
      return;
    refused_ = begun.error();
    shared_->finish(T(*refused_));
  }

  // Why no thread could be made for it; null when it runs, or ran.
  const Error* refused() const { return refused_ ? &*refused_ : nullptr; }

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
    Shared() : fd(::eventfd(0, EFD_CLOEXEC)) {
      if (fd < 0)
        end_without_descriptors();
    }
    ~Shared() { ::close(fd); }
    void finish(T with) {
      value.emplace(std::move(with));
      done.store(true, std::memory_order_release);
      const std::uint64_t one = 1;
      (void)!::write(fd, &one, sizeof one);
    }
    std::optional<T> value;  // the thread's until done
    std::atomic<bool> done{false};
    int fd;
  };
  std::shared_ptr<Shared> shared_;
  std::optional<Error> refused_;
};

}  // namespace lockstep::slurm
