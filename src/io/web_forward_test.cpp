#include "io/web_forward.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "io/event_loop.h"
#include "io/pki.h"
#include "io/temp_dir.h"
#include "io/tls.h"

namespace lockstep {
namespace {

constexpr const char* kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

// A server that says `answer` to the first request over TLS, and behind it `rest`, all in one piece.
class OnePieceServer {
 public:
  OnePieceServer(const TlsFiles& files, std::string answer, std::string rest) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || ::listen(listener_, 1) != 0)
      ADD_FAILURE() << "it cannot listen";
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port = ntohs(at.sin_port);
    context_ = TlsContext::server(files).value();
    thread_ = std::thread([this, answer = std::move(answer), rest = std::move(rest)] { serve(answer, rest); });
  }
  ~OnePieceServer() {
    thread_.join();
    ::close(listener_);
  }
  std::uint16_t port = 0;

 private:
  void serve(const std::string& answer, const std::string& rest) const {
    const int fd = ::accept(listener_, nullptr, nullptr);
    const auto engine = context_->open();
    std::string heard;
    char chunk[16 << 10];
    while (heard.find("\r\n\r\n") == heard.npos) {
      const ssize_t n = ::read(fd, chunk, sizeof chunk);
      if (n <= 0 || !engine->feed({chunk, static_cast<std::size_t>(n)}, [&](std::string_view b) { heard += b; }).ok())
        break;
      send(fd, engine->take_output());
    }
    (void)engine->seal(answer);
    engine->finish();
    send(fd, engine->take_output() + rest);
    ::close(fd);
  }
  static void send(int fd, const std::string& bytes) {
    if (!bytes.empty())
      (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  int listener_ = -1;
  std::unique_ptr<TlsContext> context_;
  std::thread thread_;
};

// The connection's end, or nonsense, comes in the very read in which the answer's end does.
TEST(WebForward, AnAnswerAndTheConnectionMayEndAtOnce) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.file("pki"), "demo").value();
  const auto files = ca->issue("web", {.name = "web", .role = kControllerRole, .hosts = {"127.0.0.1"}}).value();
  for (const std::string& rest : {std::string(), std::string("no record of TLS at all")}) {
    OnePieceServer server(files, kAnswer, rest);
    const auto loop = make_event_loop();
    std::string body;
    int status = 0, ends = 0;
    bool well = false;
    std::shared_ptr<WebForwarding> forwarding;
    WebForward ask{.address = "127.0.0.1",
                   .port = server.port,
                   .trust = {},
                   .method = "GET",
                   .head = "GET / HTTP/1.1\r\nHost: web\r\n\r\n",
                   .body = ""};
    ask.trust.anybody = true;
    forwarding = web_forward(*loop, std::move(ask),
                             {.head = [&](ReplyHead head) { status = head.status; },
                              .body = [&](std::string_view bytes) { body += bytes; },
                              .end =
                                  [&](Result<void> how) {
                                    ++ends;
                                    well = how.ok();
                                    forwarding.reset();  // as who is told does
                                    loop->after(millis(50), [&] { loop->stop(); });
                                  }});
    loop->after(seconds(10), [&] { loop->stop(); });
    loop->run();
    EXPECT_EQ(status, 200);
    EXPECT_EQ(body, "ok");
    EXPECT_EQ(ends, 1);
    EXPECT_TRUE(well);
  }
}

}  // namespace
}  // namespace lockstep
