// bench-many-nodes: the agents of many nodes in one process, for benchmarks of a controller. Each has a connection and
// a certificate of its own and the real logic of an agent; what it is told to start is said to run at once, and to have
// ended once it is stopped; with "silent" nothing is said of it. No process is started, and nothing is said of
// containers.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/link.h"
#include "agent/logic.h"
#include "base/text.h"
#include "io/clock.h"
#include "io/dialer.h"
#include "io/event_loop.h"

namespace lockstep {
namespace {

constexpr Duration kDialAgain = millis(500);

class ManyNode {
 public:
  ManyNode(EventLoop& loop, const Clock& clock, std::size_t index, DialAsk ask, std::size_t& welcome, bool silent)
      : loop_(loop), clock_(clock), index_(index), ask_(std::move(ask)), welcome_(welcome), silent_(silent) {
    logic_ = std::make_unique<AgentLogic>(AgentSettings{}, facts(), std::vector<std::string>{}, std::vector<WorkId>{},
                                          clock_.boot());
  }

  void dial() {
    dial_tls(loop_, ask_, [this](Result<std::unique_ptr<Stream>> stream) {
      if (!stream.ok()) {
        ::fprintf(stderr, "%s: %s\n", ask_.target.c_str(), stream.error().message.c_str());
        loop_.after(kDialAgain, [this] { dial(); });
        return;
      }
      AgentLink::Handlers handlers;
      handlers.message = [this](const ToAgent& message) { heard(message); };
      handlers.open_step = [](const StepOpen&, std::unique_ptr<Stream>) {};
      handlers.closed = [this](const std::string& why) { lost(why); };
      link_ = std::make_unique<AgentLink>(std::move(*stream), std::move(handlers));
      logic_->connected(clock_.boot());
      pump();
    });
  }

 private:
  std::string name() const { return format("b{:05}", index_); }

  Node facts() const {
    Node node;
    node.meta.name = node.hostname = name();
    node.address = "127.0.0.1";
    node.boot_id = "boot-" + name();
    node.version = LOCKSTEP_VERSION;
    // Of the block that is set apart for benchmarks (RFC 2544): nobody's pods have such addresses.
    node.task_range = format("198.{}.{}.{}/25", 18 + index_ / 512, index_ / 2 % 256, index_ % 2 * 128);
    node.cores = 96;
    node.memory_mb = 1'024'000;
    for (std::uint32_t d = 0; d < 8; ++d)
      node.devices.push_back(
          {.type = "h100", .uuid = format("GPU-{}-{}", index_, d), .minor = d, .memory_mb = 80'000, .island = 0});
    return node;
  }

  void heard(const ToAgent& message) {
    if (std::holds_alternative<Welcome>(message))
      ++welcome_;
    logic_->receive(message, clock_.boot());
    pump();
  }

  void lost(const std::string& why) {
    ::fprintf(stderr, "%s: connection lost: %s\n", name().c_str(), why.c_str());
    logic_->disconnected(clock_.boot());
    loop_.post([dead = std::shared_ptr<AgentLink>(std::move(link_))] {});
    loop_.after(kDialAgain, [this] { dial(); });
  }

  void obey(const AgentLogic::ShimOrder& order) {
    using enum AgentLogic::ShimOrder::What;
    if (order.what == kStart) {
      ranks_[order.key] = order.start.launch.ranks;
      if (!silent_)
        tell({.key = order.key});
    } else if (order.what == kStop) {
      ShimEvent event{.what = ShimEvent::What::kEnded, .key = order.key};
      for (const std::uint32_t rank : ranks_[order.key]) event.results.push_back({rank, ExitStatus{.signal = SIGTERM}});
      tell(std::move(event));
    } else if (order.what == kForget) {
      ranks_.erase(order.key);
    }
  }

  void tell(ShimEvent event) {
    event.at = clock_.boot();
    logic_->shim_event(event, clock_.boot());
  }

  void pump() {
    if (logic_->next_timer() <= clock_.boot())
      logic_->tick(clock_.boot());
    for (bool more = true; more;) {
      logic_->take_journal();
      const auto orders = logic_->take_orders();
      for (const AgentLogic::ShimOrder& order : orders) obey(order);
      more = !orders.empty();
      for (const FromAgent& message : logic_->take_messages())
        if (link_)
          link_->send(message);
    }
    if (timer_ != 0)
      loop_.cancel(timer_);
    timer_ = logic_->next_timer() == kNever ? 0 : loop_.after(logic_->next_timer() - clock_.boot(), [this] {
      timer_ = 0;
      pump();
    });
  }

  EventLoop& loop_;
  const Clock& clock_;
  std::size_t index_;
  DialAsk ask_;
  std::size_t& welcome_;
  const bool silent_;
  std::unique_ptr<AgentLogic> logic_;
  std::unique_ptr<AgentLink> link_;
  std::map<WorkId, std::vector<std::uint32_t>> ranks_;
  TimerId timer_ = 0;
};

void say_when_all(EventLoop& loop, const std::size_t& welcome, std::size_t all) {
  if (welcome >= all) {
    ::printf("%zu nodes\n", all);
    ::fflush(stdout);
    return;
  }
  loop.after(millis(20), [&loop, &welcome, all] { say_when_all(loop, welcome, all); });
}

// folder: ca.pem, node.key, and a certificate for each node.
Result<void> run(const std::string& folder, std::uint16_t port, std::size_t count, bool silent) {
  const rlimit files{65536, 65536};
  ::setrlimit(RLIMIT_NOFILE, &files);
  const auto loop = make_event_loop();
  const RealClock clock;
  std::vector<std::unique_ptr<ManyNode>> nodes;
  std::size_t welcome = 0;
  for (std::size_t i = 0; i < count; ++i) {
    DialAsk ask;
    ask.host = "127.0.0.1";
    ask.port = port;
    ask.tls = {folder + "/ca.pem", format("{}/b{:05}.pem", folder, i), folder + "/node.key"};
    ask.target = "/v1/link";
    ask.protocol = "lockstep-link/1";
    ask.timeout = seconds(60);
    nodes.push_back(std::make_unique<ManyNode>(*loop, clock, i, std::move(ask), welcome, silent));
    loop->after(millis(static_cast<std::int64_t>(i)), [node = nodes.back().get()] { node->dial(); });
  }
  say_when_all(*loop, welcome, count);
  loop->run();
  return {};
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const bool silent = argc == 5 && argv[4] == std::string_view("silent");
  if (argc != 4 + silent) {
    ::fputs("usage: bench-many-nodes FOLDER PORT COUNT [silent]\n", stderr);
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  const auto ran = lockstep::run(argv[1], static_cast<std::uint16_t>(::atoi(argv[2])),
                                 static_cast<std::size_t>(::atoi(argv[3])), silent);
  if (!ran.ok()) {
    ::fprintf(stderr, "bench-many-nodes: %s\n", ran.error().message.c_str());
    return 1;
  }
  return 0;
}
