#include "base/thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace lockstep {
namespace {

// Of address space, in this process: a thread's stack needs more.
void leave_no_room() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1)
    ::_exit(3);
  const rlim_t now = pages * static_cast<unsigned long>(::sysconf(_SC_PAGESIZE)) + (1 << 20);
  const rlimit room{now, now};
  ::setrlimit(RLIMIT_AS, &room);
}

TEST(Thread, Runs) {
  int ran = 0;
  auto thread = start_thread([&] { ran = 1; });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_EQ(ran, 1);
}

// Without address space there is no stack, for which the system gives the same answer as at a limit on threads, which
// does not bind root.
TEST(Thread, NoMoreOfThemIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's shadow is larger than any limit";
#endif
  const auto in_a_process_without_room = [] {
    leave_no_room();
    for (int i = 0; i < 64; ++i) {  // stacks of threads that ended are used again
      auto thread = start_thread([] {
        for (;;) ::pause();
      });
      if (!thread.ok())
        ::_exit(thread.error().code == Errc::kExhausted &&
                        thread.error().message.find("no more threads") != std::string::npos
                    ? 0
                    : 4);
      thread->detach();
    }
    ::_exit(5);
  };
  EXPECT_EXIT(in_a_process_without_room(), testing::ExitedWithCode(0), "");
}

TEST(Thread, WhoCannotBeginWithoutOneSaysSoAndEnds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's shadow is larger than any limit";
#endif
  const auto begin = [] {
    leave_no_room();
    for (int i = 0; i < 64; ++i)
      start_thread_or_exit("the planner", [] {
        for (;;) ::pause();
      }).detach();
  };
  EXPECT_EXIT(begin(), testing::ExitedWithCode(1), "no thread for the planner: the system makes no more threads");
}

}  // namespace
}  // namespace lockstep
