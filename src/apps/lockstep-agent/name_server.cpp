#include "name_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "base/ip_range.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/fd_stream.h"
#include "services/service_names.h"

namespace lockstep {
namespace {

constexpr int kReadsATurn = 64;                // datagrams, before others have their turn
constexpr std::size_t kForwardsMax = 512;      // questions that wait for a resolver
constexpr std::size_t kForwardsOfOneMax = 64;  // of one source
constexpr std::size_t kClientsMax = 256;       // TCP connections
constexpr std::size_t kClientsOfOneMax = 16;   // of one source
constexpr std::size_t kQuestionMax = 4 << 10;  // bytes of a question
constexpr Duration kResolverPatience = seconds(2);
constexpr Duration kClientIdle = seconds(10);
constexpr const char* kResolverFile = "/etc/resolv.conf";
constexpr std::size_t kResolverFileMax = 64 << 10;

sockaddr_in socket_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(address);
  return out;
}

std::uint16_t hard_to_guess() {
  std::uint16_t out = 0;
  while (::getrandom(&out, sizeof out, 0) != sizeof out) continue;
  return out;
}

}  // namespace

std::vector<std::string> resolvers_in(std::string_view text, const std::string& own) {
  std::vector<std::string> out;
  for (const std::string& line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.size() >= 2 && words[0] == "nameserver" && words[1] != own && parse_ip(words[1]) && out.size() < 3)
      out.push_back(words[1]);
  }
  return out;
}

struct NameServer::Inner : std::enable_shared_from_this<NameServer::Inner> {
  using Done = std::function<void(std::optional<std::string>)>;
  struct Forward {
    std::string query;
    std::vector<std::string> resolvers;  // that are still to be asked
    std::uint32_t source = 0;
    bool by_tcp = false;
    Done done;
    int fd = -1;                       // UDP
    std::unique_ptr<FdStream> stream;  // TCP
    std::string heard;
    TimerId timer = 0;
  };
  struct Client {
    std::unique_ptr<FdStream> stream;
    std::uint32_t source = 0;
    std::string heard;
    TimerId idle = 0;
  };

  Inner(EventLoop& on, const ServiceView& of) : loop(on), view(of) {}

  // --- from whom ---

  void read_datagrams() {
    for (int i = 0; i < kReadsATurn && udp >= 0; ++i) {
      char bytes[kQuestionMax];
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const ssize_t n = ::recvfrom(udp, bytes, sizeof bytes, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &size);
      if (n < 0)
        return;
      if (from.sin_port == 0)
        continue;
      answer({bytes, static_cast<std::size_t>(n)}, ntohl(from.sin_addr.s_addr), false,
             [this, from](const std::string& text) {
               if (udp >= 0)
                 ::sendto(udp, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                          reinterpret_cast<const sockaddr*>(&from), sizeof from);
             });
    }
  }

  void accept_clients() {
    for (int i = 0; i < kReadsATurn && tcp >= 0; ++i) {
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const int fd = ::accept4(tcp, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0)
        return;
      const std::uint32_t source = ntohl(from.sin_addr.s_addr);
      if (clients.size() >= kClientsMax || clients_of[source] >= kClientsOfOneMax) {
        ::close(fd);
        continue;
      }
      ++clients_of[source];
      const std::uint64_t id = next++;
      Client& client = clients[id];
      client.source = source;
      client.stream = std::make_unique<FdStream>(loop, fd, nullptr);
      client.stream->on_data([this, id](std::string_view bytes) { hear_client(id, bytes); });
      client.stream->on_close([this, id] { end_client_soon(id); });
      rest(id, client);
    }
  }

  void rest(std::uint64_t id, Client& client) {
    if (client.idle)
      loop.cancel(client.idle);
    client.idle = loop.after(kClientIdle, [this, id] {
      if (const auto at = clients.find(id); at != clients.end()) {
        at->second.idle = 0;
        end_client(id);
      }
    });
  }

  void hear_client(std::uint64_t id, std::string_view bytes) {
    const auto at = clients.find(id);
    if (at == clients.end())
      return;
    at->second.heard += bytes;
    while (at->second.heard.size() >= 2) {
      const std::size_t size =
          static_cast<unsigned char>(at->second.heard[0]) << 8 | static_cast<unsigned char>(at->second.heard[1]);
      if (size > kQuestionMax || at->second.stream->unsent() > kStreamHighWater)
        return end_client_soon(id);
      if (at->second.heard.size() < 2 + size)
        return;
      const std::string question = at->second.heard.substr(2, size);
      at->second.heard.erase(0, 2 + size);
      rest(id, at->second);
      answer(question, at->second.source, true, [this, id](const std::string& text) {
        const auto client = clients.find(id);
        if (client == clients.end())
          return;
        std::string framed{static_cast<char>(text.size() >> 8 & 0xff), static_cast<char>(text.size() & 0xff)};
        client->second.stream->write(framed + text);
      });
    }
  }

  void end_client_soon(std::uint64_t id) {
    loop.post([self = shared_from_this(), id] { self->end_client(id); });
  }
  void end_client(std::uint64_t id) {
    const auto at = clients.find(id);
    if (at == clients.end())
      return;
    if (at->second.idle)
      loop.cancel(at->second.idle);
    if (--clients_of[at->second.source] == 0)
      clients_of.erase(at->second.source);
    clients.erase(at);
  }

  // --- what is answered ---

  void answer(std::string_view bytes, std::uint32_t source, bool by_tcp,
              const std::function<void(const std::string&)>& reply) {
    const DnsHeard heard = read_dns_query(bytes);
    if (!heard.query) {
      if (!heard.refusal.empty())
        reply(heard.refusal);
      return;
    }
    const DnsQuery& query = *heard.query;
    const std::size_t most = by_tcp ? kDnsTcpMax : query.udp_max;
    NamesAnswer found;
    if (view.is_whole())
      found = answer_of_names(view, query, turn++);
    else
      found.answer.code = DnsCode::kServer;
    if (found.how == NamesAnswer::How::kHere)
      return reply(write_dns_answer(query, found.answer, most));
    if (found.how == NamesAnswer::How::kAlias) {
      const std::string ask = write_dns_query(hard_to_guess(), found.target, query.type);
      return forward(ask, source, by_tcp, [query, found, most, reply](std::optional<std::string> got) mutable {
        const auto read = got ? read_dns_answer(*got) : std::nullopt;
        if (read) {
          found.answer.code = read->code;
          for (const DnsRecord& record : read->records) found.answer.answers.push_back(record);
        } else {
          found.answer.code = DnsCode::kServer;
        }
        reply(write_dns_answer(query, found.answer, most));
      });
    }
    std::string ask(bytes);
    const std::uint16_t id = hard_to_guess();
    ask[0] = static_cast<char>(id >> 8);
    ask[1] = static_cast<char>(id & 0xff);
    forward(ask, source, by_tcp, [query, most, reply](std::optional<std::string> got) {
      if (!got) {
        DnsAnswer failed;
        failed.code = DnsCode::kServer;
        failed.authoritative = false;
        return reply(write_dns_answer(query, failed, most));
      }
      (*got)[0] = static_cast<char>(query.id >> 8);
      (*got)[1] = static_cast<char>(query.id & 0xff);
      reply(*got);
    });
  }

  // --- what others are asked ---

  void look_at_resolvers() {
    struct stat file {};
    if (::stat(kResolverFile, &file) != 0)
      return resolvers.clear();
    if (file.st_mtim.tv_sec == read_at.tv_sec && file.st_mtim.tv_nsec == read_at.tv_nsec)
      return;
    read_at = file.st_mtim;
    const auto text = read_plain(kResolverFile, Links::kFollowed, kResolverFileMax);
    resolvers = text ? resolvers_in(*text, own) : std::vector<std::string>{};
  }

  void forward(const std::string& query, std::uint32_t source, bool by_tcp, Done done) {
    look_at_resolvers();
    if (forwards.size() >= kForwardsMax || forwards_of[source] >= kForwardsOfOneMax || resolvers.empty()) {
      if (forwards_of[source] == 0)
        forwards_of.erase(source);
      return done(std::nullopt);
    }
    ++forwards_of[source];
    const std::uint64_t id = next++;
    Forward& one = forwards[id];
    one.query = query;
    one.resolvers = resolvers;
    one.source = source;
    one.by_tcp = by_tcp;
    one.done = std::move(done);
    ask_next(id);
  }

  void stop_asking(Forward& one) {
    if (one.timer)
      loop.cancel(std::exchange(one.timer, 0));
    if (one.fd >= 0) {
      loop.unwatch(one.fd);
      ::close(std::exchange(one.fd, -1));
    }
    one.stream.reset();
    one.heard.clear();
  }

  void finish(std::uint64_t id, std::optional<std::string> got) {
    const auto at = forwards.find(id);
    if (at == forwards.end())
      return;
    stop_asking(at->second);
    const Done done = std::move(at->second.done);
    if (--forwards_of[at->second.source] == 0)
      forwards_of.erase(at->second.source);
    forwards.erase(at);
    done(std::move(got));
  }

  void ask_next(std::uint64_t id) {
    const auto at = forwards.find(id);
    if (at == forwards.end())
      return;
    Forward& one = at->second;
    stop_asking(one);
    if (one.resolvers.empty())
      return finish(id, std::nullopt);
    const sockaddr_in to = socket_address(parse_ip(one.resolvers.front()).value_or(0), 53);
    one.resolvers.erase(one.resolvers.begin());
    one.timer = loop.after(kResolverPatience, [self = shared_from_this(), id] {
      if (const auto late = self->forwards.find(id); late != self->forwards.end()) {
        late->second.timer = 0;
        self->ask_next(id);
      }
    });
    const int fd = ::socket(AF_INET, (one.by_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // A socket of its own for each: the kernel lets nobody else's answer in, and the port is one more thing to guess.
    const bool begun = fd >= 0 && (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ||
                                   (one.by_tcp && errno == EINPROGRESS));
    if (!begun || (!one.by_tcp && ::send(fd, one.query.data(), one.query.size(), MSG_NOSIGNAL) < 0)) {
      if (fd >= 0)
        ::close(fd);
      loop.post([self = shared_from_this(), id] { self->ask_next(id); });
      return;
    }
    if (!one.by_tcp) {
      one.fd = fd;
      return loop.watch(fd, [this, id] { hear_datagram(id); });
    }
    one.stream = std::make_unique<FdStream>(loop, fd, nullptr);
    one.stream->on_data([this, id](std::string_view bytes) { hear_stream(id, bytes); });
    one.stream->on_close([self = weak_from_this(), id, &loop = loop] {
      loop.post([self, id] {
        if (const auto here = self.lock())
          here->ask_next(id);
      });
    });
    std::string framed{static_cast<char>(one.query.size() >> 8 & 0xff), static_cast<char>(one.query.size() & 0xff)};
    one.stream->write(framed + one.query);
  }

  void hear_datagram(std::uint64_t id) {
    const auto at = forwards.find(id);
    if (at == forwards.end())
      return;
    char bytes[kDnsTcpMax];
    const ssize_t n = ::recv(at->second.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return ask_next(id);
    const std::string_view got(bytes, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (answers_dns_query(got, at->second.query))
      finish(id, std::string(got));
  }

  void hear_stream(std::uint64_t id, std::string_view bytes) {
    const auto at = forwards.find(id);
    if (at == forwards.end())
      return;
    std::string& heard = at->second.heard;
    heard += bytes;
    if (heard.size() < 2)
      return;
    const std::size_t size =
        static_cast<std::size_t>(static_cast<unsigned char>(heard[0]) << 8 | static_cast<unsigned char>(heard[1]));
    if (heard.size() < 2 + size)
      return;
    // The stream is calling us: it goes from the loop.
    loop.post([self = shared_from_this(), id, got = heard.substr(2, size)] {
      const auto one = self->forwards.find(id);
      if (one == self->forwards.end())
        return;
      if (answers_dns_query(got, one->second.query))
        self->finish(id, got);
      else
        self->ask_next(id);
    });
  }

  void close() {
    for (int* fd : {&udp, &tcp})
      if (*fd >= 0) {
        loop.unwatch(*fd);
        ::close(std::exchange(*fd, -1));
      }
    while (!clients.empty()) end_client(clients.begin()->first);
    while (!forwards.empty()) {
      forwards.begin()->second.done = [](std::optional<std::string>) {};
      finish(forwards.begin()->first, std::nullopt);
    }
  }

  EventLoop& loop;
  const ServiceView& view;
  int udp = -1, tcp = -1;
  std::string own;
  std::uint64_t next = 1, turn = 0;
  std::map<std::uint64_t, Client> clients;
  std::map<std::uint32_t, std::size_t> clients_of, forwards_of;
  std::map<std::uint64_t, Forward> forwards;
  std::vector<std::string> resolvers;
  timespec read_at{};
};

NameServer::NameServer(EventLoop& loop, const ServiceView& view) : inner_(std::make_shared<Inner>(loop, view)) {}

NameServer::~NameServer() { close(); }

void NameServer::close() { inner_->close(); }

Result<void> NameServer::listen(const std::string& address, std::uint16_t port) {
  close();
  const auto parsed = parse_ip(address);
  if (!parsed)
    return invalid(format("\"{}\" is no address to answer names at", address));
  const sockaddr_in at = socket_address(*parsed, port);
  inner_->own = address;
  inner_->read_at = {};
  inner_->udp = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  inner_->tcp = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  for (const int fd : {inner_->udp, inner_->tcp})
    if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        ::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
        (fd == inner_->tcp && ::listen(fd, 128) != 0)) {
      const Error error = os_error(format("cannot answer names at {}:{}", address, port));
      for (int* one : {&inner_->udp, &inner_->tcp})
        if (*one >= 0)
          ::close(std::exchange(*one, -1));
      return error;
    }
  inner_->loop.watch(inner_->udp, [inner = inner_.get()] { inner->read_datagrams(); });
  inner_->loop.watch(inner_->tcp, [inner = inner_.get()] { inner->accept_clients(); });
  return {};
}

}  // namespace lockstep
