#include "io/http_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/text.h"
#include "io/client/unix_api_client.h"
#include "io/event_loop.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

// A server on a thread of its own. on_loop() runs something there and waits for it.
class Served {
 public:
  explicit Served(HttpHandler handler, HttpLimits limits = {}) {
    server_ = make_http_server(*loop_, std::move(handler), limits,
                               [this](const std::string& line) { notices_ += line + "\n"; });
    const auto listening = server_->listen_unix(path(), 0666);
    EXPECT_TRUE(listening.ok());
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~Served() {
    on_loop([this] { server_.reset(); });
    loop_->stop();
    thread_.join();
  }
  void on_loop(const std::function<void()>& task) {
    std::atomic<bool> done = false;
    loop_->post([&] {
      task();
      done = true;
      done.notify_one();
    });
    done.wait(false);
  }
  std::string path() const { return dir_.file("api.sock"); }
  std::unique_ptr<ApiClient> client() const { return std::move(connect_unix(path()).value()); }
  EventLoop& loop() { return *loop_; }
  const std::string& notices() const { return notices_; }

 private:
  TempDir dir_;
  std::unique_ptr<EventLoop> loop_ = make_event_loop();
  std::unique_ptr<HttpServer> server_;
  std::string notices_;
  std::thread thread_;
};

// A client that may be as rude as it likes.
class RawClient {
 public:
  explicit RawClient(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { hang_up(); }
  void hang_up() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }
  RawClient& send(std::string_view bytes) {
    (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return *this;
  }
  std::string read_until(std::string_view end) {
    while (!seen_.ends_with(end) && read_more()) {}
    return std::exchange(seen_, {});
  }
  std::string read_all() {
    while (read_more()) {}
    return std::exchange(seen_, {});
  }
  int fd() const { return fd_; }

 private:
  bool read_more() {
    char buffer[4096];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n > 0)
      seen_.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }
  int fd_ = -1;
  std::string seen_;
};

void echo(const std::shared_ptr<HttpExchange>& exchange) {
  const auto& request = exchange->request();
  exchange->respond({.content_type = "text/plain", .body = request.method + " " + request.path + " " + request.body});
}

TEST(HttpServer, AnswersOverAKeptAliveConnection) {
  Served served(echo);
  const auto client = served.client();
  for (int i = 0; i < 3; ++i) {
    const auto reply = client->call("POST", format("/v1/thing%20{}?x=1", i), "body");
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->content_type, "text/plain");
    EXPECT_EQ(reply->body, format("POST /v1/thing {} body", i));
  }
}

TEST(HttpServer, KnowsCallersByTheKernelsWord) {
  Peer seen;
  std::map<std::string, std::string, std::less<>> query, headers;
  Served served([&](const auto& exchange) {
    seen = exchange->request().peer;
    query = exchange->request().query;
    headers = exchange->request().headers;
    exchange->respond({.status = 204});
  });
  const auto reply = served.client()->call("GET", "/?a=b%26c&d=e+f&flag");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->status, 204);
  served.on_loop([] {});
  EXPECT_EQ(seen.how, Peer::How::kUnixSocket);
  EXPECT_EQ(seen.uid, getuid());
  EXPECT_EQ(seen.gid, getgid());
  EXPECT_EQ(seen.pid, getpid());
  EXPECT_EQ(seen.realm, "local");
  EXPECT_EQ(query["a"], "b&c");
  EXPECT_EQ(query["d"], "e f");
  EXPECT_TRUE(query.contains("flag"));
  EXPECT_EQ(headers["host"], "lockstep");
}

TEST(HttpServer, PipelinedAnswersKeepTheOrderOfTheirRequests) {
  std::vector<std::shared_ptr<HttpExchange>> waiting;
  Served served([&](const auto& exchange) {
    waiting.push_back(exchange);
    if (waiting.size() < 3)
      return;
    for (auto it = waiting.rbegin(); it != waiting.rend(); ++it) (*it)->respond({.body = (*it)->request().path});
    waiting.clear();
  });
  RawClient client(served.path());
  client.send("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\n\r\n");
  const std::string all = client.read_until("/3");
  EXPECT_LT(all.find("/1"), all.find("\r\n\r\n/2"));
  EXPECT_LT(all.find("\r\n\r\n/2"), all.find("\r\n\r\n/3"));
}

TEST(HttpServer, ManyPipelinedRequestsPastTheBoundAreAllAnswered) {
  Served served([&](const auto& exchange) { served.loop().post([exchange] { exchange->respond({.body = "x"}); }); });
  RawClient client(served.path());
  std::string all;
  for (int i = 0; i < 2000; ++i) all += "GET / HTTP/1.1\r\n\r\n";
  std::thread writer([&] { client.send(all + "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"); });
  const std::string answers = client.read_all();
  writer.join();
  std::size_t count = 0;
  for (std::size_t at = 0; (at = answers.find("200 OK", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 2001u);
}

TEST(HttpServer, BodiesOfAnySizeAndChunks) {
  Served served([](const auto& exchange) { exchange->respond({.body = exchange->request().body}); });
  const auto client = served.client();
  const std::string big(5'000'000, 'z');
  const auto reply = client->call("POST", "/", big);
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->body, big);
  RawClient raw(served.path());
  raw.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_TRUE(raw.read_until("abcde").ends_with("\r\n\r\nabcde"));
}

TEST(HttpServer, AsksForABodyThatWaitsForPermission) {
  Served served(echo);
  RawClient raw(served.path());
  raw.send("POST / HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(raw.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  raw.send("abc");
  EXPECT_NE(raw.read_until("abc").find("200 OK"), std::string::npos);
}

TEST(HttpServer, AnAnswerMayComeMuchLaterAndAGoneClientIsTold) {
  std::shared_ptr<HttpExchange> kept;
  std::atomic<bool> gone = false;
  Served served([&](const auto& exchange) {
    kept = exchange;
    exchange->on_gone([&] {
      gone = true;
      gone.notify_one();
    });
  });
  RawClient client(served.path());
  client.send("GET /wait HTTP/1.1\r\n\r\n");
  while (true) {
    bool arrived = false;
    served.on_loop([&] { arrived = kept != nullptr; });
    if (arrived)
      break;
  }
  client.hang_up();
  gone.wait(false);
  served.on_loop([&] {
    kept->respond({});  // falls on the floor
    kept.reset();
  });
}

TEST(HttpServer, ADroppedExchangeIsAnsweredAsAnError) {
  Served served([](const auto&) {});
  const auto reply = served.client()->call("GET", "/");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->status, 500);
}

TEST(HttpServer, UpgradesToARawStream) {
  std::unique_ptr<Stream> stream;
  Served served([&](const auto& exchange) {
    stream = exchange->upgrade("echo/1");
    stream->write("hello ");
    stream->on_data([&](std::string_view bytes) { stream->write(std::string(bytes)); });
    stream->on_close([&] { stream.reset(); });
  });
  const auto client = served.client();
  const auto fd = client->upgrade("/v1/io", "echo/1");
  ASSERT_TRUE(fd.ok()) << fd.error().message;
  ASSERT_EQ(::send(*fd, "world", 5, 0), 5);
  std::string seen;
  char buffer[64];
  while (seen.size() < 11) {
    const ssize_t n = ::recv(*fd, buffer, sizeof buffer, 0);
    ASSERT_GT(n, 0);
    seen.append(buffer, static_cast<std::size_t>(n));
  }
  EXPECT_EQ(seen, "hello world");
  ::close(*fd);
  // Bytes that came with the request belong to the stream.
  RawClient raw(served.path());
  raw.send("GET /io HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\nearly");
  EXPECT_TRUE(raw.read_until("early").ends_with("\r\n\r\nhello early"));
  served.on_loop([&] { stream.reset(); });
  EXPECT_EQ(raw.read_all(), "");
}

TEST(HttpServer, StreamsABodyThatHasNoEndYet) {
  std::unique_ptr<Stream> stream;
  std::atomic<bool> left = false;
  Served served([&](const auto& exchange) {
    if (exchange->request().path == "/plain")
      return echo(exchange);
    stream = exchange->stream({.status = 200, .content_type = "text/x-lines", .body = "never sent"});
    if (!stream)
      return;
    stream->on_close([&] {
      left = true;
      left.notify_one();
    });
    stream->write("one\n");
    stream->write("");
    stream->write("two\n");
  });
  RawClient raw(served.path());
  raw.send("GET /s HTTP/1.1\r\n\r\n");
  const std::string begun = raw.read_until("two\n\r\n");
  EXPECT_TRUE(
      begun.starts_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/x-lines\r\n"
                        "Connection: close\r\n\r\n4\r\none\n\r\n"))
      << begun;
  served.on_loop([&] { stream->close(); });
  EXPECT_EQ(raw.read_all(), "0\r\n\r\n");
  // What an older client takes ends with the connection; dropped, a body in chunks has no end.
  RawClient old(served.path());
  old.send("GET /s HTTP/1.0\r\n\r\n");
  const std::string plain = old.read_until("one\ntwo\n");
  EXPECT_EQ(plain.find("chunked"), std::string::npos) << plain;
  served.on_loop([&] { stream->close(); });
  EXPECT_EQ(old.read_all(), "");
  RawClient cut(served.path());
  cut.send("GET /s HTTP/1.1\r\n\r\n").read_until("two\n\r\n");
  served.on_loop([&] { stream.reset(); });
  EXPECT_EQ(cut.read_all(), "");
  RawClient leaving(served.path());
  leaving.send("GET /s HTTP/1.1\r\n\r\n").read_until("two\n\r\n");
  left = false;
  leaving.hang_up();
  left.wait(false);
  served.on_loop([&] { stream.reset(); });
}

TEST(HttpServer, AStreamTakesItsConnectionWithIt) {
  std::unique_ptr<Stream> stream;
  std::shared_ptr<HttpExchange> first, behind;
  bool gone = false;
  Served served([&](const auto& exchange) {
    if (exchange->request().path == "/first") {
      first = exchange;
    } else if (exchange->request().path == "/behind") {
      behind = exchange;
      behind->on_gone([&] { gone = true; });
      stream = std::exchange(first, nullptr)->stream({.content_type = "text/plain"});
    } else {
      stream = exchange->stream({.content_type = "text/plain"});
    }
  });
  RawClient raw(served.path());
  raw.send("GET /first HTTP/1.1\r\n\r\nGET /behind HTTP/1.1\r\n\r\n");
  EXPECT_NE(raw.read_until("\r\n\r\n").find("200 OK"), std::string::npos);
  served.on_loop([&] {
    EXPECT_TRUE(gone);
    behind = nullptr;
    ASSERT_TRUE(stream);
    stream.reset();
  });
  EXPECT_EQ(raw.read_all(), "");
  // One that would follow an unanswered request is refused; a HEAD gets the head.
  RawClient second(served.path());
  second.send("GET /first HTTP/1.1\r\n\r\nGET /s HTTP/1.1\r\n\r\n");
  served.on_loop([] {});
  RawClient head(served.path());
  head.send("HEAD /s HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(head.read_all().find("200 OK"), std::string::npos);
  served.on_loop([&] {
    EXPECT_FALSE(stream);
    if (first)
      std::exchange(first, nullptr)->respond({.body = "late"});
  });
  EXPECT_NE(second.read_until("connection\",\"field\":\"\"}}").find("400"), std::string::npos);
}

TEST(HttpServer, ADeclinedUpgradeStaysHttp) {
  Served served([](const auto& exchange) { exchange->respond({.status = 404, .body = "no such step"}); });
  const auto client = served.client();
  const auto fd = client->upgrade("/v1/io", "echo/1");
  ASSERT_FALSE(fd.ok());
  EXPECT_EQ(fd.error().code, Errc::kNotFound);
  EXPECT_EQ(fd.error().message, "no such step");
  RawClient raw(served.path());
  raw.send("GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nGET /2 HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string both = raw.read_all();
  EXPECT_NE(both.find("no such step"), both.rfind("no such step"));
}

// Whatever the headers say, a connection that cannot change stays HTTP, and the server stays up.
TEST(HttpServer, AnUpgradeThatCannotBeIsDeclined) {
  std::shared_ptr<HttpExchange> polled;
  Served served([&](const auto& exchange) {
    if (exchange->request().path == "/poll")
      polled = exchange;
    else if (exchange->request().headers.contains("upgrade"))
      EXPECT_EQ(exchange->upgrade("echo/1"), nullptr);
    else
      echo(exchange);
  });
  RawClient half(served.path());  // Upgrade without Connection: Upgrade
  half.send("GET /io HTTP/1.1\r\nUpgrade: echo/1\r\n\r\n");
  const std::string declined = half.read_until("}}");
  EXPECT_TRUE(declined.starts_with("HTTP/1.1 426 Upgrade Required\r\n")) << declined;
  EXPECT_NE(declined.find("Upgrade: echo/1\r\n"), std::string::npos);
  half.send("GET /next HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(half.read_until("/next ").ends_with("GET /next "));
  RawClient piped(served.path());  // behind a request that still waits
  piped.send(
      "GET /poll HTTP/1.1\r\n\r\nGET /io HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\nGET /3 "
      "HTTP/1.1\r\n\r\n");
  while (true) {
    bool arrived = false;
    served.on_loop([&] { arrived = polled != nullptr; });
    if (arrived)
      break;
  }
  served.on_loop([&] { std::exchange(polled, nullptr)->respond({.body = "polled"}); });
  const std::string all = piped.read_until("GET /3 ");
  EXPECT_LT(all.find("polled"), all.find("HTTP/1.1 400 "));
  EXPECT_LT(all.find("HTTP/1.1 400 "), all.find("GET /3 "));
}

TEST(HttpServer, MalformedRequestsGetA400AndTheEnd) {
  Served served(echo);
  for (const std::string_view bad : {"\x16\x03\x01 binary rubbish\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                                     "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET /%zz HTTP/1.1\r\n\r\n",
                                     "GET /%00 HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -4\r\n\r\n",
                                     "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                                     "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                                     "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"}) {
    RawClient client(served.path());
    client.send(bad);
    const std::string answer = client.read_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 Bad Request\r\n")) << bad << "\n" << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  }
}

TEST(HttpServer, GoodAnswersBeforeAMalformedRequestStillCome) {
  Served served(echo);
  RawClient client(served.path());
  client.send("GET /good HTTP/1.1\r\n\r\nrubbish\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_NE(answer.find("GET /good"), std::string::npos);
  EXPECT_NE(answer.find("400 Bad Request"), std::string::npos);
}

TEST(HttpServer, LimitsOnSizesHold) {
  Served served(echo, {.header_bytes = 1000, .body_bytes = 1000});
  RawClient header(served.path());
  header.send("GET /" + std::string(3000, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(header.read_all().starts_with("HTTP/1.1 431 "));
  RawClient body(served.path());
  body.send("POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_TRUE(body.read_all().starts_with("HTTP/1.1 413 "));
  RawClient chunks(served.path());
  chunks.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n" + std::string(0x1000, 'x'));
  EXPECT_TRUE(chunks.read_all().starts_with("HTTP/1.1 413 "));
}

TEST(HttpServer, SilentAndSlowClientsAreClosedOthersAreNot) {
  std::shared_ptr<HttpExchange> kept;
  Served served(
      [&](const auto& exchange) {
        if (exchange->request().path == "/poll")
          kept = exchange;
        else
          echo(exchange);
      },
      {.header_timeout = millis(40), .idle_timeout = millis(80)});
  RawClient polling(served.path());
  polling.send("GET /poll HTTP/1.1\r\n\r\n");
  RawClient silent(served.path());
  EXPECT_EQ(silent.read_all(), "");
  RawClient slow(served.path());
  slow.send("GET / HT");
  EXPECT_TRUE(slow.read_all().starts_with("HTTP/1.1 408 "));
  RawClient idle(served.path());
  idle.send("GET /idle HTTP/1.1\r\n\r\n");
  EXPECT_NE(idle.read_all().find("/idle"), std::string::npos);
  served.on_loop([&] {
    kept->respond({.body = "late"});
    kept.reset();
  });
  EXPECT_TRUE(polling.read_until("late").ends_with("late"));
}

TEST(HttpServer, ThousandsOfSilentConnectionsDoNotHurt) {
  Served served(echo);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 5'000; ++i) silent.push_back(std::make_unique<RawClient>(served.path()));
  const auto reply = served.client()->call("GET", "/still-here");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->body, "GET /still-here ");
}

// The server's own user is never locked out: its oldest idle connection goes instead.
TEST(HttpServer, WhenAllConnectionsAreTakenAnIdleOneMakesWay) {
  std::shared_ptr<HttpExchange> kept;
  Served served(
      [&](const auto& exchange) {
        if (exchange->request().path == "/poll")
          kept = exchange;
        else
          echo(exchange);
      },
      {.connections = 3});
  RawClient polling(served.path()), idle(served.path()), half(served.path());
  polling.send("GET /poll HTTP/1.1\r\n\r\n");
  idle.send("GET / HTTP/1.1\r\n\r\n").read_until("GET / ");
  half.send("GET / HT");
  served.on_loop([] {});
  RawClient next(served.path());
  EXPECT_TRUE(next.send("GET /in HTTP/1.1\r\n\r\n").read_until("/in ").ends_with("GET /in "));
  EXPECT_EQ(idle.read_all(), "");
  RawClient last(served.path());
  EXPECT_TRUE(last.send("GET /in HTTP/1.1\r\n\r\n").read_until("/in ").ends_with("GET /in "));
  EXPECT_EQ(half.read_all(), "");
  served.on_loop([&] { std::exchange(kept, nullptr)->respond({.body = "late"}); });
  EXPECT_TRUE(polling.read_until("late").ends_with("late"));
}

TEST(HttpServer, ABodysBoundIsTheRoutesAndAskedBeforeItIsRead) {
  std::vector<std::string> asked;
  Served served(echo, {.body_bound = [&](const HttpRequest& head) {
                  asked.push_back(format("{} {} {}", head.method, head.path, head.peer.uid));
                  return head.path == "/small" ? std::size_t{10} : std::size_t{1} << 20;
                }});
  RawClient large(served.path());
  large.send("POST /small HTTP/1.1\r\nContent-Length: 11\r\n\r\n");
  const std::string refused = large.read_all();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 413 ")) << refused;
  EXPECT_NE(refused.find("the body has 11 bytes, and POST /small takes at most 10 from you"), std::string::npos);
  RawClient chunks(served.path());
  chunks.send("POST /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n");
  EXPECT_TRUE(chunks.read_all().starts_with("HTTP/1.1 413 "));
  const auto fits = served.client()->call("POST", "/large", std::string(1 << 20, 'x'));
  ASSERT_TRUE(fits.ok());
  EXPECT_EQ(fits->status, 200);
  served.on_loop([] {});
  EXPECT_EQ(asked, (std::vector{format("POST /small {}", getuid()), format("POST /small {}", getuid()),
                                format("POST /large {}", getuid())}));
}

// A body waits, unread, until there is memory for it; what waits too long is told to come again.
TEST(HttpServer, BodiesWaitForMemory) {
  std::shared_ptr<HttpExchange> kept;
  Served served(
      [&](const auto& exchange) {
        if (exchange->request().path == "/kept")
          kept = exchange;
        else
          exchange->respond({.body = format("{}", exchange->request().body.size())});
      },
      {.memory_bytes = 1 << 20, .header_timeout = millis(400)});
  const std::string body(1 << 20, 'b');
  const std::string head = format(" HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.size());
  RawClient first(served.path()), second(served.path()), third(served.path());
  first.send("POST /kept" + head + body);
  for (bool here = false; !here;) served.on_loop([&] { here = kept != nullptr; });
  std::thread sending([&] { second.send("POST /next" + head + body); });
  served.on_loop([] {});
  served.on_loop([&] { std::exchange(kept, nullptr)->respond({.body = "done"}); });
  EXPECT_TRUE(second.read_until("\r\n\r\n1048576").ends_with("\r\n\r\n1048576"));
  sending.join();
  first.hang_up();
  second.hang_up();
  RawClient fourth(served.path());
  fourth.send("POST /kept" + head + body);
  for (bool here = false; !here;) served.on_loop([&] { here = kept != nullptr; });
  third.send("POST /never" + head);
  const std::string told = third.read_all();
  EXPECT_TRUE(told.starts_with("HTTP/1.1 503 ")) << told;
  EXPECT_NE(told.find("Retry-After: "), std::string::npos);
  served.on_loop([&] { kept.reset(); });
}

// Asking without ever reading ends the connection when its answers reach the caller's share of memory.
TEST(HttpServer, AnswersThatNobodyReadsAreBounded) {
  std::atomic<int> asked = 0;
  Served served(
      [&](const auto& exchange) {
        ++asked;
        exchange->respond({.body = std::string(exchange->request().path == "/large" ? 4 << 20 : 300'000, 'a')});
      },
      {.memory_bytes = 2 << 20});
  const auto large = served.client()->call("GET", "/large");
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(large->status, 507);
  asked = 0;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(std::make_unique<RawClient>(served.path()));
    for (int n = 0; n < 4; ++n) clients.back()->send("GET / HTTP/1.1\r\n\r\n");
  }
  std::size_t got = 0, refused = 0;
  for (auto& client : clients) {
    client->send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    ::shutdown(client->fd(), SHUT_WR);
  }
  for (auto& client : clients) {
    const std::string all = client->read_all();
    got += all.size();
    refused += all.find("HTTP/1.1 503 ") != std::string::npos || all.empty();
  }
  EXPECT_GT(got, 300'000u);
  EXPECT_GT(refused, 0u);
}

TEST(HttpServer, SlowBodiesAndSlowReadersAreCutOff) {
  Served served([](const auto& exchange) { exchange->respond({.body = std::string(8 << 20, 'a')}); },
                {.header_timeout = millis(80), .drain_timeout = millis(80), .bytes_per_second_min = 1 << 30});
  RawClient drip(served.path());
  std::atomic<bool> over = false;
  drip.send("POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
  std::thread dripping([&] {  // a byte now and then keeps nothing alive
    while (!over) {
      drip.send("x");
      served.on_loop([] {});
    }
  });
  EXPECT_TRUE(drip.read_all().starts_with("HTTP/1.1 408 "));
  over = true;
  dripping.join();
  RawClient deaf(served.path());
  deaf.send("GET / HTTP/1.1\r\n\r\n");
  pollfd hung{.fd = deaf.fd(), .events = 0, .revents = 0};
  EXPECT_EQ(::poll(&hung, 1, 20'000), 1);  // closed by the server, most of its answer unread
  EXPECT_LT(deaf.read_all().size(), std::size_t{8} << 20);
}

// One connection's pipelined requests do not keep the loop from others.
TEST(HttpServer, ManyRequestsOfOneConnectionTakeTurnsWithOthers) {
  std::size_t flood = 0, at_other = 0;
  Served served([&](const auto& exchange) {
    if (exchange->request().path == "/other")
      at_other = flood;
    else
      ++flood;
    exchange->respond({.body = "x"});
  });
  std::string all;
  for (int i = 0; i < 3000; ++i) all += "GET / HTTP/1.1\r\n\r\n";
  RawClient other(served.path()), greedy(served.path());
  other.send("GET / HTTP/1.1\r\n\r\n").read_until("\r\n\r\nx");
  greedy.send("GET / HTTP/1.1\r\n\r\n").read_until("\r\n\r\nx");
  served.on_loop([&] {  // both wait in the sockets when the loop goes on
    flood = 0;
    greedy.send(all);
    other.send("GET /other HTTP/1.1\r\n\r\n");
  });
  other.read_until("\r\n\r\nx");
  served.on_loop([&] { EXPECT_LE(at_other, 200u); });
}

TEST(HttpServer, TheSocketIsSharedAndTakenOverOnlyFromTheDead) {
  TempDir dir;
  const auto loop = make_event_loop();
  const std::string path = dir.file("s");
  auto first = make_http_server(*loop, echo);
  ASSERT_TRUE(first->listen_unix(path, 0666).ok());
  struct stat found {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0666u);
  const auto second = make_http_server(*loop, echo);
  const auto refused = second->listen_unix(path, 0666);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kConflict);
  first.reset();
  EXPECT_NE(stat(path.c_str(), &found), 0);  // a clean end leaves nothing
  // One that was killed leaves its file behind.
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(dead);
  EXPECT_TRUE(second->listen_unix(path, 0666).ok());
  // An ordinary file is never removed.
  std::ofstream(dir.file("precious")) << "data";
  EXPECT_FALSE(second->listen_unix(dir.file("precious"), 0666).ok());
  EXPECT_EQ(stat(dir.file("precious").c_str(), &found), 0);
  EXPECT_FALSE(second->listen_unix("/" + std::string(200, 'x'), 0666).ok());
  const std::string deep = dir.file("a folder with a name so long that it fills what an address has room for");
  ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  const std::string longest = deep + "/" + std::string(sizeof(sockaddr_un::sun_path) - 2 - deep.size(), 's');
  EXPECT_TRUE(second->listen_unix(longest, 0666).ok());
  EXPECT_TRUE(connect_unix(longest).ok());
}

TEST(HttpServer, ASocketWhoseFileWasRemovedComesBack) {
  Served served(echo);
  ASSERT_EQ(::unlink(served.path().c_str()), 0);
  while (::access(served.path().c_str(), F_OK) != 0) std::this_thread::yield();
  EXPECT_TRUE(connect_unix(served.path()).ok());
}

TEST(HttpServer, NobodyMeetsTheSocketBeforeItCanBeUsed) {
  TempDir dir;
  const auto loop = make_event_loop();
  const auto server = make_http_server(*loop, echo);
  const mode_t before = ::umask(077);
  unsigned early = 0, closed = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string path = dir.file(std::to_string(round));
    std::atomic<bool> watching = false;
    std::thread other([&] {
      struct stat found {};
      watching = true;
      while (::stat(path.c_str(), &found) != 0) {}
      closed += (found.st_mode & 0777) != 0666 ? 1 : 0;
      early += connect_unix(path).ok() ? 0 : 1;
    });
    while (!watching) {}
    if (!server->listen_unix(path, 0666).ok())
      std::ofstream(path) << "so that nobody waits";
    other.join();
  }
  ::umask(before);
  EXPECT_EQ(closed, 0u) << "without its mode";
  EXPECT_EQ(early, 0u) << "before anybody listened";
}

TEST(HttpServer, EveryPrefixOfARequestIsSurvived) {
  Served served(echo);
  const std::string whole = "POST /a?b=c HTTP/1.1\r\nContent-Length: 5\r\nX: y\r\n\r\nhello";
  for (std::size_t n = 0; n < whole.size(); ++n) {
    RawClient cut(served.path());
    cut.send(std::string_view(whole).substr(0, n));
  }
  for (std::size_t n = 1; n < whole.size(); ++n) {
    RawClient split(served.path());
    split.send(std::string_view(whole).substr(0, n));
    served.on_loop([] {});
    split.send(std::string_view(whole).substr(n));
    EXPECT_TRUE(split.read_until("hello").ends_with("POST /a hello"));
  }
}

}  // namespace
}  // namespace lockstep
