#include "io/http_parser.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/text.h"

namespace lockstep {
namespace {

struct Parsed {
  std::vector<HttpRequest> requests;
  bool bad = false;
  int status = 0;
};

// Feeds the bytes as a connection would: unused ones come again with more behind them.
Parsed parse_in_pieces(std::string_view bytes, const std::function<std::size_t()>& piece) {
  HttpParser parser(1 << 12);
  Parsed out;
  std::string pending;
  while (true) {
    const auto fed = parser.feed(pending);
    EXPECT_LE(fed.consumed, pending.size());
    pending.erase(0, fed.consumed);
    if (fed.progress == HttpParser::Progress::kBad) {
      out.bad = true;
      out.status = parser.bad_status();
      return out;
    }
    if (fed.progress == HttpParser::Progress::kHead) {
      parser.allow_body(1 << 16);
      continue;
    }
    if (fed.progress == HttpParser::Progress::kMessage) {
      out.requests.push_back(parser.take());
      continue;
    }
    if (bytes.empty())
      return out;
    const std::size_t n = std::min(std::max<std::size_t>(piece(), 1), bytes.size());
    pending.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
  }
}

const std::string kValid[] = {
    "GET / HTTP/1.1\r\n\r\n",
    "GET /v1/jobs?state=running,pending&user=a%20b HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
    "POST /v1/jobs HTTP/1.1\r\nContent-Length: 13\r\n\r\n{\"spec\":null}",
    "POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3;x=1\r\nefg\r\n0\r\nT: z\r\n\r\n",
    "DELETE /v1/nodes/n1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /v1/link HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: lockstep-link/1\r\n\r\n",
};

TEST(HttpParser, PiecesOfAnySizeGiveTheSameRequests) {
  std::string all;
  for (const auto& text : kValid) all += text;
  for (std::size_t size = 1; size < 80; ++size) {
    const auto parsed = parse_in_pieces(all, [&] { return size; });
    EXPECT_FALSE(parsed.bad);
    ASSERT_EQ(parsed.requests.size(), std::size(kValid)) << size;
    EXPECT_EQ(parsed.requests[1].query.at("user"), "a b");
    EXPECT_EQ(parsed.requests[2].body, "{\"spec\":null}");
    EXPECT_EQ(parsed.requests[3].body, "abcdefg");
  }
}

TEST(HttpParser, RepeatedFieldsAreJoined) {
  const auto parsed = parse_in_pieces("GET / HTTP/1.1\r\nX-A: 1\r\nx-a: 2\r\n\r\n", [] { return std::size_t{1000}; });
  ASSERT_EQ(parsed.requests.size(), 1u);
  EXPECT_EQ(parsed.requests[0].headers.at("x-a"), "1, 2");
}

TEST(HttpParser, TargetsAreDecodedOrRefused) {
  HttpRequest request;
  EXPECT_TRUE(split_target("/a%2Fb?x=%26&y&=z&&w=1=2", request));
  EXPECT_EQ(request.path, "/a/b");
  EXPECT_EQ(request.query["x"], "&");
  EXPECT_EQ(request.query["y"], "");
  EXPECT_EQ(request.query["w"], "1=2");
  for (const std::string_view bad : {"/%", "/%4", "/%g0", "/%00", "/?a=%", "/?%zz=1"})
    EXPECT_FALSE(split_target(bad, request)) << bad;
}

// Neither a chunk's line without an end nor an endless trailer is kept: one connection would take all memory.
TEST(HttpParser, LinesBetweenChunksAreBounded) {
  for (const std::string start : {"1;x=", "0\r\nT: "}) {
    const auto parsed =
        parse_in_pieces("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + start + std::string(100'000, 'x'),
                        [] { return std::size_t{1000}; });
    EXPECT_TRUE(parsed.bad) << start;
  }
  const auto trailed =
      parse_in_pieces("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nUpgrade: link\r\nX: 1\r\n\r\n",
                      [] { return std::size_t{7}; });
  ASSERT_EQ(trailed.requests.size(), 1u);
  EXPECT_FALSE(trailed.requests[0].headers.contains("upgrade"));
}

// Whoever stands before us may see the end of a body elsewhere: what follows would be a request in his name.
TEST(HttpParser, AHeadThatCouldBeUnderstoodInTwoWaysIsRefusedWithWhatFollows) {
  const auto verdict = [](const std::string& head, std::size_t piece) {
    const auto parsed = parse_in_pieces(head + "\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\n\r\n", [&] { return piece; });
    EXPECT_EQ(parsed.requests.size(), 0u) << head;
    return parsed.bad ? parsed.status : 0;
  };
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    for (const char* coding : {"xchunked", "identity", "gzip, chunked", "chunked, identity", "chunked;x", ""})
      EXPECT_EQ(verdict("POST / HTTP/1.1\r\nTransfer-Encoding: " + std::string(coding) + "\r\n", piece), 501) << coding;
    for (const char* fields :
         {"Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"})
      EXPECT_EQ(verdict("POST / HTTP/1.1\r\n" + std::string(fields), piece), 501) << fields;
    for (const char* fields :
         {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
          "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
          "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 5\r\n", "Content-Length: +5\r\n",
          "Content-Length : 5\r\n", "X: 1\r\n Transfer-Encoding: chunked\r\n", "X:\r\n\tContent-Length: 5\r\n",
          " X: 1\r\n", "X: 1\nContent-Length: 5\r\n", "X: 1\rContent-Length: 5\r\n"})
      EXPECT_EQ(verdict("POST / HTTP/1.1\r\n" + std::string(fields), piece), 400) << fields;
    EXPECT_EQ(verdict("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", piece), 400);
    const auto extended = parse_in_pieces(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a=\"\n\"\r\nx\r\n0\r\n\r\n", [&] { return piece; });
    EXPECT_TRUE(extended.bad) << "a line end within an extension";
  }
}

TEST(HttpParser, TheSameLengthTwiceIsOneLength) {
  const auto parsed = parse_in_pieces("POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
                                      [] { return std::size_t{5}; });
  ASSERT_EQ(parsed.requests.size(), 1u);
  EXPECT_EQ(parsed.requests[0].body, "ok");
}

// Broken in every way a seed can think of: never more than one verdict, and never a different one for other pieces.
TEST(HttpParser, MutatedRequestsAreParsedOrRefusedWhateverThePieces) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Rng rng(seed);
    std::string text;
    for (std::uint64_t i = 0, n = 1 + rng.below(3); i < n; ++i) text += kValid[rng.below(std::size(kValid))];
    for (std::uint64_t i = 0, n = rng.below(6); i < n && !text.empty(); ++i) {
      const std::size_t at = rng.below(text.size());
      switch (rng.below(5)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, 1 + rng.below(8)); break;
        case 2: text.insert(at, text.substr(rng.below(text.size()), rng.below(20))); break;
        case 3: text.insert(at, 1, "\r\n:%? 0\0"[rng.below(8)]); break;
        default: text.insert(at, std::string(rng.below(9000), 'A')); break;
      }
    }
    text += "\r\n\r\n";  // a header that never ends has no verdict yet
    const auto whole = parse_in_pieces(text, [&] { return text.size(); });
    const auto pieces = parse_in_pieces(text, [&] { return 1 + rng.below(40); });
    ASSERT_EQ(whole.bad, pieces.bad) << seed << "\n" << text;
    ASSERT_EQ(whole.requests.size(), pieces.requests.size()) << seed << "\n" << text;
    for (std::size_t i = 0; i < whole.requests.size(); ++i) {
      ASSERT_EQ(whole.requests[i].body, pieces.requests[i].body) << seed;
      ASSERT_EQ(whole.requests[i].path, pieces.requests[i].path) << seed;
    }
    if (whole.bad) {
      ASSERT_TRUE(whole.status == 400 || whole.status == 413 || whole.status == 431 || whole.status == 501);
    }
  }
}

}  // namespace
}  // namespace lockstep
