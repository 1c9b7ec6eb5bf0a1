#include "pmi/server/node_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include "base/byte_queue.h"
#include "base/text.h"
#include "pmi/bytes.h"
#include "pmi/control.h"
#include "pmi/server/pmix_backend.h"
#include "pmi/wire_world.h"

namespace lockstep {
namespace {

constexpr std::size_t kReadMost = 64 << 10;
constexpr int kDrainRounds = 64;
constexpr std::size_t kUnreadMax = 4 << 20;  // of answers that a rank does not read

std::size_t from_shim(PmiControl) { return kPmiControlMax; }

// Sends what fits. False: nobody will read it.
bool send_some(int fd, ByteQueue& queue) {
  while (!queue.empty()) {
    const std::string_view bytes = queue.front(kReadMost);
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return errno == EAGAIN;
    queue.drop(static_cast<std::size_t>(n));
  }
  return true;
}

class NodeServer {
 public:
  int run();

 private:
  struct Rank {
    int fd = -1;  // -1: its end was closed
    ByteQueue queue;
  };

  void wait();
  void hear_shim();
  void obey(PmiControl kind, std::string_view payload);
  void begin(std::string_view payload);
  void from_client(PmiMessageReader& reader, std::string_view bytes);
  void rank_ended(std::string_view payload);
  bool read_rank(std::uint32_t local);
  void to_rank(std::uint32_t local, std::string_view bytes);
  void tell(PmiControl kind, std::string_view payload) { queue_.append(encode_pmi_control(kind, payload)); }
  void up(const PmiMessage& message);
  void fail(std::string_view why);

  ByteQueue queue_;  // to the shim
  PmiControlReader control_{from_shim};
  PmiMessageReader own_, all_;
  std::vector<Rank> ranks_;  // where they speak over descriptors
  WireWorld* wire_ = nullptr;
  std::unique_ptr<PmiBackend> backend_;
  bool over_ = false;
};

void NodeServer::up(const PmiMessage& message) {
  const std::string bytes = encode_pmi_message(message);
  for (std::size_t at = 0; at < bytes.size(); at += kReadMost)
    tell(PmiControl::kUp, std::string_view(bytes).substr(at, kReadMost));
}

// The shim ends the step, and us.
void NodeServer::fail(std::string_view why) { tell(PmiControl::kFailed, why.substr(0, kPmiWordsMax)); }

void NodeServer::begin(std::string_view payload) {
  auto world = decode_pmi_world(payload);
  if (!world.ok() || backend_)
    return fail(world.ok() ? "lockstep-pmi is told twice what the step is" : world.error().message);
  const auto to_client = [this](const PmiMessage& message) { up(message); };
  if (world->kind == PmiWorld::Kind::kWire) {
    ranks_.resize(world->here().ranks.size());
    for (std::size_t local = 0; local < ranks_.size(); ++local) {
      ranks_[local].fd = kPmiRanksFd + static_cast<int>(local);
      ::fcntl(ranks_[local].fd, F_SETFL, O_NONBLOCK);
    }
    auto wire = std::make_unique<WireWorld>(
        std::move(*world), to_client, [this](std::uint32_t local, std::string_view bytes) { to_rank(local, bytes); });
    wire_ = wire.get();
    backend_ = std::move(wire);
  } else {
    backend_ = make_pmix_backend(std::move(*world), to_client);
  }
  const auto variables = backend_->begin();
  if (!variables.ok())
    return fail(variables.error().message);
  tell(PmiControl::kReady, encode_pmi_variables(*variables));
}

void NodeServer::from_client(PmiMessageReader& reader, std::string_view bytes) {
  const auto read = reader.feed(bytes, [this](PmiMessage message) {
    if (backend_)
      backend_->hear(std::move(message));
  });
  if (!read.ok())
    fail(format("what the step's client says is not understood: {}", read.error().message));
}

// What it wrote before counts.
void NodeServer::rank_ended(std::string_view payload) {
  PmiReader in(payload);
  const auto local = static_cast<std::uint32_t>(in.number(4));
  PmiEnd end;
  end.code = static_cast<std::int32_t>(in.number(1));
  end.signal = static_cast<std::int32_t>(in.number(1));
  if (!in.at_end() || !backend_)
    return;
  for (int round = 0; wire_ && local < ranks_.size() && round < kDrainRounds && read_rank(local); ++round) {}
  backend_->rank_ended(local, end);
}

void NodeServer::obey(PmiControl kind, std::string_view payload) {
  switch (kind) {
    case PmiControl::kWorld: return begin(payload);
    case PmiControl::kOwn: return from_client(own_, payload);
    case PmiControl::kAll: return from_client(all_, payload);
    case PmiControl::kEnded: return rank_ended(payload);
    case PmiControl::kFinish: over_ = true; return;
    default: return;  // a later shim's word
  }
}

void NodeServer::hear_shim() {
  char chunk[kReadMost];
  const ssize_t n = ::recv(kPmiControlFd, chunk, sizeof chunk, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0) {
    over_ = true;
    return;
  }
  const auto fed =
      control_.feed({chunk, static_cast<std::size_t>(n)}, [this](PmiControl kind, std::string_view payload) {
        if (!over_)
          obey(kind, payload);
      });
  over_ = over_ || !fed.ok();
}

// True: there may be more.
bool NodeServer::read_rank(std::uint32_t local) {
  Rank& rank = ranks_[local];
  if (rank.fd < 0)
    return false;
  char chunk[kReadMost];
  const ssize_t n = ::recv(rank.fd, chunk, sizeof chunk, MSG_DONTWAIT);
  if (n > 0)
    wire_->rank_said(local, {chunk, static_cast<std::size_t>(n)});
  if (n > 0 || (n < 0 && errno == EINTR))
    return true;
  if (n == 0 || errno != EAGAIN) {
    ::close(rank.fd);
    rank.fd = -1;
  }
  return false;
}

void NodeServer::to_rank(std::uint32_t local, std::string_view bytes) {
  Rank& rank = ranks_[local];
  if (rank.fd < 0 || rank.queue.size() > kUnreadMax)
    return;
  rank.queue.append(std::string(bytes));
  if (!send_some(rank.fd, rank.queue))
    rank.queue.clear();  // reading says that it is gone
}

void NodeServer::wait() {
  const auto events = [](const ByteQueue& queue) { return static_cast<short>(POLLIN | (queue.empty() ? 0 : POLLOUT)); };
  std::vector<pollfd> waits{{kPmiControlFd, events(queue_), 0}, {backend_ ? backend_->wake_fd() : -1, POLLIN, 0}};
  const std::size_t first = waits.size();
  for (const Rank& rank : ranks_) waits.push_back({rank.fd, events(rank.queue), 0});
  if (::poll(waits.data(), waits.size(), -1) < 0)
    return;
  if (waits[1].revents)
    backend_->wake();
  for (std::size_t i = first; i < waits.size(); ++i) {
    const auto local = static_cast<std::uint32_t>(i - first);
    if (waits[i].revents & POLLOUT && !send_some(ranks_[local].fd, ranks_[local].queue))
      ranks_[local].queue.clear();
    if (waits[i].revents & ~POLLOUT)
      read_rank(local);
  }
  if (waits[0].revents & ~POLLOUT)
    hear_shim();
}

int NodeServer::run() {
  while (!over_) {
    wait();
    if (!send_some(kPmiControlFd, queue_))
      break;
  }
  if (backend_)
    backend_->finish();
  if (const int flags = ::fcntl(kPmiControlFd, F_GETFL); flags >= 0)
    ::fcntl(kPmiControlFd, F_SETFL, flags & ~O_NONBLOCK);
  while (!queue_.empty() && over_) {  // its last words; the shim waits for them
    const std::string_view bytes = queue_.front(kReadMost);
    const ssize_t n = ::send(kPmiControlFd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR)
      break;
    if (n > 0)
      queue_.drop(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

int serve_pmi() {
  // Signals are for the tasks; SIGKILL and SIGSTOP reach us like them.
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  if (::fcntl(kPmiControlFd, F_GETFD) < 0)
    return 2;
  return NodeServer().run();
}

}  // namespace lockstep
