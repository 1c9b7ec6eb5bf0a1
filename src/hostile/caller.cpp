#include "hostile/caller.h"

#include "base/check.h"

namespace lockstep::hostile {

namespace {

class WireStream final : public Stream {
 public:
  explicit WireStream(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ~WireStream() override {
    wire_->data = nullptr;
    wire_->closed = nullptr;
    wire_->drained = nullptr;
    wire_->gone = true;
  }
  void on_data(std::function<void(std::string_view)> callback) override { wire_->data = std::move(callback); }
  void on_close(std::function<void()> callback) override { wire_->closed = std::move(callback); }
  void write(std::string bytes) override {
    if (wire_->gone)
      return;
    if (!wire_->reads)
      wire_->unread += bytes.size();
    else if (wire_->sent)
      wire_->sent(bytes);
  }
  std::size_t unsent() const override { return wire_->unread; }
  void on_drained(std::function<void()> callback) override { wire_->drained = std::move(callback); }
  void pause(bool) override {}
  void close() override { wire_->gone = true; }

 private:
  std::shared_ptr<Wire> wire_;
};

class Exchange final : public HttpExchange {
 public:
  Exchange(HttpRequest request, std::shared_ptr<Call> call) : request_(std::move(request)), call_(std::move(call)) {}
  ~Exchange() override {
    if (!answered_)
      respond({.status = 500, .body = "dropped"});
  }
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    CHECK(!answered_, "an exchange is answered once");
    answered_ = true;
    call_->gone = nullptr;
    call_->response = std::move(response);
    call_->over = true;
  }
  std::unique_ptr<Stream> stream(HttpResponse) override {
    CHECK(!answered_, "an exchange is answered once");
    return open();
  }
  std::unique_ptr<Stream> upgrade(const std::string&) override {
    CHECK(!answered_, "an exchange is answered once");
    const auto connection = request_.headers.find("connection");
    if (connection == request_.headers.end() || connection->second != "Upgrade" ||
        !request_.headers.contains("upgrade")) {
      respond({.status = 426, .body = "this request cannot be upgraded"});
      return nullptr;
    }
    return open();
  }
  void on_gone(std::function<void()> callback) override { call_->gone = std::move(callback); }

 private:
  std::unique_ptr<Stream> open() {
    answered_ = true;
    call_->gone = nullptr;
    call_->wire = std::make_shared<Wire>();
    auto stream = std::make_unique<WireStream>(call_->wire);
    call_->over = true;
    return stream;
  }

  HttpRequest request_;
  std::shared_ptr<Call> call_;
  bool answered_ = false;
};

}  // namespace

std::shared_ptr<HttpExchange> make_exchange(HttpRequest request, std::shared_ptr<Call> call) {
  return std::make_shared<Exchange>(std::move(request), std::move(call));
}

}  // namespace lockstep::hostile
