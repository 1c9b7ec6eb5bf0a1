#include "io/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep {

namespace {

struct FreesContext {
  void operator()(SSL_CTX* one) const { SSL_CTX_free(one); }
};
struct FreesSession {
  void operator()(SSL* one) const { SSL_free(one); }
};

// OpenSSL between two buffers in memory: what comes from below is put into one, what it has for below is taken out of
// the other.
class TlsOver final : public Stream {
 public:
  explicit TlsOver(std::unique_ptr<Stream> below) : below_(std::move(below)) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!context_)
      return;
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_NONE, nullptr);
    session_.reset(SSL_new(context_.get()));
    from_below_ = BIO_new(BIO_s_mem());
    to_below_ = BIO_new(BIO_s_mem());
    if (!session_ || !from_below_ || !to_below_)
      return;
    SSL_set_bio(session_.get(), from_below_, to_below_);
    SSL_set_connect_state(session_.get());
    SSL_set_mode(session_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    below_->on_data([this](std::string_view bytes) { take(bytes); });
    below_->on_close([this] { end(); });
    below_->on_drained([this] {
      if (drained_)
        drained_();
    });
    step();
  }
  bool usable() const { return session_ != nullptr; }

  void on_data(std::function<void(std::string_view)> callback) override { data_ = std::move(callback); }
  void on_close(std::function<void()> callback) override { closed_ = std::move(callback); }
  void on_drained(std::function<void()> callback) override { drained_ = std::move(callback); }
  void write(std::string bytes) override {
    waiting_ += bytes;
    step();
  }
  std::size_t unsent() const override { return waiting_.size() + below_->unsent(); }
  void pause(bool reading_paused) override { below_->pause(reading_paused); }
  void close() override {
    closing_ = true;
    step();
  }

 private:
  void take(std::string_view bytes) {
    BIO_write(from_below_, bytes.data(), static_cast<int>(bytes.size()));
    step();
  }

  // Everything that can be done now. Whoever is told of data may close us meanwhile, but not drop us.
  void step() {
    if (std::exchange(stepping_, true))
      return;
    bool failed = false;
    for (bool moved = true; moved && !failed;) {
      moved = false;
      if (!waiting_.empty()) {
        const int wrote = SSL_write(session_.get(), waiting_.data(),
                                    static_cast<int>(std::min<std::size_t>(waiting_.size(), 1 << 20)));
        if (wrote > 0) {
          waiting_.erase(0, static_cast<std::size_t>(wrote));
          moved = true;
        } else {
          failed = is_fatal(wrote);
        }
      }
      char chunk[16 << 10];
      const int got = failed ? 0 : SSL_read(session_.get(), chunk, sizeof chunk);
      if (got > 0) {
        moved = true;
        if (data_)
          data_({chunk, static_cast<std::size_t>(got)});
      } else if (!failed) {
        failed = is_fatal(got);
      }
      flush();
    }
    ERR_clear_error();
    stepping_ = false;
    if (closing_ && waiting_.empty() && !std::exchange(shut_, true)) {
      SSL_shutdown(session_.get());
      ERR_clear_error();
      flush();
      below_->close();
    }
    if (failed && !ended_) {
      below_->close();
      end();
    }
  }

  bool is_fatal(int result) const {
    const int why = SSL_get_error(session_.get(), result);
    return why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE;
  }

  void flush() {
    char chunk[16 << 10];
    std::string out;
    for (int size; (size = BIO_read(to_below_, chunk, sizeof chunk)) > 0;)
      out.append(chunk, static_cast<std::size_t>(size));
    if (!out.empty())
      below_->write(std::move(out));
  }

  void end() {
    if (!std::exchange(ended_, true) && closed_)
      closed_();
  }

  std::unique_ptr<Stream> below_;
  std::unique_ptr<SSL_CTX, FreesContext> context_;
  std::unique_ptr<SSL, FreesSession> session_;
  BIO* from_below_ = nullptr;  // the session's own, both
  BIO* to_below_ = nullptr;
  std::function<void(std::string_view)> data_;
  std::function<void()> closed_, drained_;
  std::string waiting_;
  bool stepping_ = false, closing_ = false, shut_ = false, ended_ = false;
};

}  // namespace

std::unique_ptr<Stream> tls_over(std::unique_ptr<Stream> below) {
  auto out = std::make_unique<TlsOver>(std::move(below));
  return out->usable() ? std::move(out) : nullptr;
}

}  // namespace lockstep
