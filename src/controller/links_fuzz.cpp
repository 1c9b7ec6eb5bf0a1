// libFuzzer entry over what an authenticated node may send on its link: whole frames of every type and torn ones, its
// calls answered in every way. The hub stays up, and what it keeps for the node stays bounded.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "controller/links.h"
#include "wire/api_call.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

class Wire final : public Stream {
 public:
  explicit Wire(std::function<void(std::string_view)>& heard) : heard_(heard) {}
  ~Wire() override { heard_ = nullptr; }
  void on_data(std::function<void(std::string_view)> callback) override { heard_ = std::move(callback); }
  void on_close(std::function<void()>) override {}
  void write(std::string bytes) override { unsent_ = unsent_ * 7 / 8 + bytes.size(); }
  std::size_t unsent() const override { return unsent_; }
  void on_drained(std::function<void()>) override {}
  void pause(bool) override {}
  void close() override { heard_ = nullptr; }

 private:
  std::function<void(std::string_view)>& heard_;
  std::size_t unsent_ = 0;
};

// A frame from a few bytes of the input: type, stream, what it carries.
std::string frame_from(std::string_view& input) {
  const auto byte = [&] {
    const auto value = input.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(input[0]);
    input.remove_prefix(input.empty() ? 0 : 1);
    return value;
  };
  const std::uint8_t type = byte() % 10, stream = byte() % 16, form = byte();
  const std::size_t length = std::min<std::size_t>(form / 4, input.size());
  std::string payload(input.substr(0, length));
  input.remove_prefix(length);
  if (form % 4 == 0)
    payload = encode(ApiCall{.method = "GET", .target = "/v1/" + payload, .body = payload, .uid = form});
  else if (form % 4 == 1)
    payload =
        encode(ApiCall{.method = "POST", .target = "/", .body = {}, .bytes = std::uint64_t{form} << (stream * 2)});
  else if (form % 4 == 2)
    payload.resize(length * 1024, 'x');
  return encode_frame(type, stream, payload);
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<std::shared_ptr<HttpExchange>> kept;
  std::vector<std::unique_ptr<Stream>> streams;
  std::size_t calls = 0;
  LinkHub::Handlers on;
  on.connected = [](std::uint64_t, const std::string&, const std::string&, const std::string&) {};
  on.disconnected = [](std::uint64_t) {};
  on.message = [](std::uint64_t, const FromAgent&) {};
  on.welcomed = [](const std::string&) {};
  on.call = [&](std::shared_ptr<HttpExchange> exchange) {
    switch (++calls % 4) {
      case 0: exchange->respond({.body = std::string(calls * 20'000 % 300'000, 'r')}); break;
      case 1:
        if (auto stream = exchange->upgrade("any/1"))
          streams.push_back(std::move(stream));
        break;
      case 2: kept.push_back(std::move(exchange)); break;
      default: break;  // dropped
    }
  };
  std::function<void(std::string_view)> heard;
  LinkHub hub(std::move(on), {.memory_bytes = 1 << 20, .unsent_bytes_max = 1 << 20});
  hub.add(std::make_unique<Wire>(heard), "n1", "realm");
  while (!input.empty() && heard) {
    std::string bytes = frame_from(input);
    if (!input.empty() && input[0] == '!')
      bytes.resize(bytes.size() / 2);
    const auto keep = heard;  // it may be dropped meanwhile
    keep(bytes);
  }
  if (!kept.empty())
    kept.front()->respond({.body = std::string(200'000, 'k')});
  return 0;
}
