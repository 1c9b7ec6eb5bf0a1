#include "frontends/kube/server/spdy.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/text.h"

namespace lockstep::kube {
namespace {

// A client, as Kubernetes' library writes its frames.
struct Client {
  z_stream out{};
  Client() {
    deflateInit(&out, Z_BEST_COMPRESSION);
    const std::string& words = spdy_dictionary();
    deflateSetDictionary(&out, reinterpret_cast<const Bytef*>(words.data()), static_cast<uInt>(words.size()));
  }
  ~Client() { deflateEnd(&out); }

  static std::string number(std::uint32_t value, int bytes = 4) {
    std::string out;
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
    return out;
  }
  static std::string control(std::uint32_t kind, const std::string& body, std::uint32_t flags = 0) {
    return number(0x8003, 2) + number(kind, 2) + number(flags, 1) + number(static_cast<std::uint32_t>(body.size()), 3) +
           body;
  }
  std::string packed(const SpdyHeaders& headers) {
    std::string plain = number(static_cast<std::uint32_t>(headers.size()));
    for (const auto& [name, value] : headers)
      plain += number(static_cast<std::uint32_t>(name.size())) + name +
               number(static_cast<std::uint32_t>(value.size())) + value;
    std::string all(4096 + plain.size(), '\0');
    out.next_in = reinterpret_cast<Bytef*>(plain.data());
    out.avail_in = static_cast<uInt>(plain.size());
    out.next_out = reinterpret_cast<Bytef*>(all.data());
    out.avail_out = static_cast<uInt>(all.size());
    deflate(&out, Z_SYNC_FLUSH);
    all.resize(all.size() - out.avail_out);
    return all;
  }
  std::string open(std::uint32_t stream, const SpdyHeaders& headers, bool last = false) {
    return control(1, number(stream) + number(0) + number(0, 2) + packed(headers), last ? 1 : 0);
  }
};

struct Spdy : testing::Test {
  Client client;
  std::string sent, told;
  SpdySession session{
      {.opened =
           [this](std::uint32_t stream, const SpdyHeaders& headers, bool last) {
             told += format("open {}{}", stream, last ? " last" : "");
             for (const auto& [name, value] : headers) told += format(" {}={}", name, value);
             told += "\n";
           },
       .data = [this](std::uint32_t stream, std::string_view bytes,
                      bool last) { told += format("data {} {}{}\n", stream, bytes, last ? " last" : ""); },
       .reset = [this](std::uint32_t stream) { told += format("reset {}\n", stream); },
       .going = [this] { told += "going\n"; }},
      [this](std::string bytes) { sent += bytes; }};
};

TEST_F(Spdy, StreamsOpenSpeakAndEnd) {
  std::string all = client.open(1, {{"streamtype", "error"}});  // one behind the other: blocks are one stream
  all += client.open(3, {{"streamType", "stdin"}, {"port", "80"}});
  all += spdy_data_frame(3, "hello", false) + spdy_data_frame(3, "", true) + spdy_data_frame(3, "late", false);
  all += spdy_data_frame(9, "nowhere", false);
  all += Client::control(3, Client::number(1) + Client::number(5));
  all += Client::control(7, Client::number(3) + Client::number(0));
  for (const char c : all) ASSERT_TRUE(session.feed(std::string_view(&c, 1)).ok());
  EXPECT_EQ(told,
            "open 1 streamtype=error\nopen 3 port=80 streamtype=stdin\ndata 3 hello\ndata 3  last\nreset 1\ngoing\n");
}

TEST_F(Spdy, AnswersAreFrames) {
  session.reply(1);
  EXPECT_EQ(sent.substr(0, 4), std::string("\x80\x03\x00\x02", 4));
  EXPECT_EQ(sent.substr(8, 4), Client::number(1));
  sent.clear();
  session.data(3, "ab", true);
  EXPECT_EQ(sent, std::string("\0\0\0\3\1\0\0\2ab", 10));
  sent.clear();
  const std::string ping = Client::control(6, Client::number(7));
  ASSERT_TRUE(session.feed(ping).ok());
  EXPECT_EQ(sent, ping);
}

TEST_F(Spdy, WhatIsNoFrameIsRefused) {
  EXPECT_FALSE(session.feed(std::string("\x80\x02\x00\x01\x00\x00\x00\x00", 8)).ok());  // another version
  SpdySession second({[](auto, const auto&, bool) {}, [](auto, auto, bool) {}, [](auto) {}, [] {}}, [](auto) {});
  EXPECT_FALSE(second.feed(Client::control(1, Client::number(1) + std::string(20, 'x'))).ok());  // damaged headers
  SpdySession third({[](auto, const auto&, bool) {}, [](auto, auto, bool) {}, [](auto) {}, [] {}}, [](auto) {});
  EXPECT_FALSE(third.feed(std::string("\0\0\0\1\0\xff\xff\xff", 8)).ok());  // too long
  SpdySession fourth({[](auto, const auto&, bool) {}, [](auto, auto, bool) {}, [](auto) {}, [] {}}, [](auto) {});
  EXPECT_FALSE(fourth.feed(client.open(2, {})).ok());  // a server's number
}

TEST(SpdyDictionary, IsTheStandards) {
  const std::string& words = spdy_dictionary();
  EXPECT_EQ(words.size(), 1423u);
  EXPECT_EQ(
      adler32(adler32(0, nullptr, 0), reinterpret_cast<const Bytef*>(words.data()), static_cast<uInt>(words.size())),
      0xe3c6a7c2u);
}

}  // namespace
}  // namespace lockstep::kube
