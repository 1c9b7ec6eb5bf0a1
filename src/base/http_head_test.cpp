#include "base/http_head.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lockstep {
namespace {

std::string framing_of(const std::string& fields, const std::string& version = "HTTP/1.1") {
  const auto head = parse_reply_head(version + " 200 OK\r\n" + fields);
  if (!head.ok())
    return "refused: " + head.error().message;
  const BodyFraming& framing = head->framing;
  return framing.chunked() ? "chunks" : framing.length() ? std::to_string(*framing.length()) : "none";
}

TEST(HttpHead, SaysWhereTheBodyEnds) {
  EXPECT_EQ(framing_of(""), "none");
  EXPECT_EQ(framing_of("A: b\r\nContent-Length: 5\r\n"), "5");
  EXPECT_EQ(framing_of("Content-Length: 5\r\ncontent-length:5 \r\n"), "5") << "the same word twice";
  EXPECT_EQ(framing_of("transfer-ENCODING:\tChunked \r\n"), "chunks");
  EXPECT_EQ(framing_of("Content-Length: 5\n", "HTTP/1.0"), "5") << "lines without a carriage return";
}

TEST(HttpHead, ThatCouldBeUnderstoodInTwoWaysIsRefused) {
  for (const std::string coding : {"xchunked", "identity", "gzip, chunked", "chunked, chunked", "chunked, identity",
                                   "chunked;q=1", "\"chunked\"", "chunked,", ""}) {
    EXPECT_EQ(framing_of("Transfer-Encoding: " + coding + "\r\n"),
              "refused: the transfer coding \"" + coding + "\" is not known: \"chunked\" alone is read");
  }
  for (const char* fields : {
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
           "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Content-Length: 5\r\nContent-Length: 6\r\n",
           "Content-Length: 5, 5\r\n",
           "Content-Length: +5\r\n",
           "Content-Length: 0x5\r\n",
           "Content-Length: \r\n",
           "Content-Length: 99999999999999999999\r\n",
           "Content-Length : 5\r\n",
           "Transfer-Encoding\t: chunked\r\n",
           "A: b\r\n Content-Length: 5\r\n",
           "A: b\r\n\tc\r\n",
           " A: b\r\n",
           "A: b\rContent-Length: 5\r\n",
           "A: b\r\r\n",
           ": 5\r\n",
           "A\r\n",
           "\r\nA: b\r\n",
       })
    EXPECT_TRUE(framing_of(fields).starts_with("refused")) << fields;
  EXPECT_TRUE(framing_of("A: b" + std::string(1, '\0') + "\r\n").starts_with("refused"));
  EXPECT_TRUE(framing_of("Transfer-Encoding: chunked\r\n", "HTTP/1.0").starts_with("refused"));
  for (const char* version : {"HTTP/1.2", "HTTP/2.0", "HTTP/1.x", "http/1.1", " HTTP/1.1"})
    EXPECT_TRUE(framing_of("", version).starts_with("refused")) << version;
}

TEST(HttpHead, ChunksHaveASize) {
  EXPECT_EQ(parse_chunk_line("0"), 0u);
  EXPECT_EQ(parse_chunk_line("1aF"), 0x1afu);
  EXPECT_EQ(parse_chunk_line("5 ; name=\"value\""), 5u);
  for (const char* line : {"", ";x", "0x5", "-1", "5 5", "5;\n", "5;x\ry", "g", "1234567812345678"})
    EXPECT_EQ(parse_chunk_line(line), std::nullopt) << line;
}

}  // namespace
}  // namespace lockstep
