// How often an agent asks a shim whether it is alive, counted in the timers that wait for it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "io/event_loop.h"
#include "io/shims.h"
#include "io/temp_dir.h"
#include "model/work_id.h"

namespace lockstep {
namespace {

// Knows which timers wait.
class CountingLoop final : public EventLoop {
 public:
  void post(std::function<void()> task) override { loop_->post(std::move(task)); }
  TimerId after(Duration delay, std::function<void()> task) override {
    const auto id = std::make_shared<TimerId>(0);
    *id = loop_->after(delay, [this, id, task = std::move(task)] {
      waiting_.erase(*id);
      task();
    });
    waiting_.insert(*id);
    return *id;
  }
  void cancel(TimerId timer) override {
    waiting_.erase(timer);
    loop_->cancel(timer);
  }
  void watch(int fd, std::function<void()> on_readable) override { loop_->watch(fd, std::move(on_readable)); }
  void unwatch(int fd) override { loop_->unwatch(fd); }
  void run() override { loop_->run(); }
  void stop() override { loop_->stop(); }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  std::unique_ptr<EventLoop> loop_ = make_event_loop();
  std::set<TimerId> waiting_;
};

std::string program_of_shims() {
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, static_cast<std::size_t>(n));
  return path.substr(0, path.rfind('/')) + "/lockstep-shim";
}

// Said again every few seconds while a task could not be killed, each stop began questions that went on for ever.
TEST(ShimQuestions, AStopThatIsSaidAgainAsksNoMore) {
  const TempDir dir;
  ::chmod(dir.path().c_str(), 0755);
  CountingLoop loop;
  const auto shims = std::move(*make_shims(loop, dir.path(), program_of_shims()));
  std::vector<ShimEvent> events;
  shims->on_event([&](ShimEvent event) {
    events.push_back(std::move(event));
    loop.stop();
  });
  ShimStart start;
  start.key = {JobId(7), 1, StepPart{0}};
  start.launch.ranks = {0};
  start.launch.to_client = false;
  start.launch.process.uid = ::geteuid();
  start.launch.process.gid = ::getegid();
  start.launch.process.argv = {"sleep", "1000"};
  start.launch.process.env = {"PATH=/usr/bin:/bin"};
  start.launch.process.work_dir = dir.path();
  shims->start(start);
  while (events.empty()) loop.run();
  ASSERT_EQ(events.back().what, ShimEvent::What::kStarted);
  const std::size_t before = loop.waiting();
  for (int i = 0; i < 50; ++i) shims->stop(start.key, hours(1));
  EXPECT_EQ(loop.waiting(), before + 1);
  shims->stop(start.key, {});  // brings the question forward
  EXPECT_EQ(loop.waiting(), before + 1);
  while (events.size() < 2) loop.run();
  EXPECT_EQ(events.back().what, ShimEvent::What::kEnded);
}

}  // namespace
}  // namespace lockstep
