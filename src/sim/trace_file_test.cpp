// Trace files: columns, typed fields, gzip, and every way a file can be damaged, each with its line.
#include "sim/trace_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/text.h"

namespace lockstep::sim {
namespace {

Result<TraceFile> csv(std::string bytes) { return TraceFile::from_bytes("t.csv", std::move(bytes), TraceForm::kCsv); }

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

TEST(TraceFile, ReadsNamedColumnsWithLineNumbers) {
  auto file = csv("id,size,spec\r\n7,12.0,\"a,b\"\n\n8,-3,\n").value();
  const std::size_t size = file.column("size").value();
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.line(), 2u);
  EXPECT_EQ(file.integer(size).value(), 12);
  EXPECT_EQ(file.text(2), "a,b");
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.line(), 4u);
  EXPECT_EQ(file.integer(size).value(), -3);
  EXPECT_EQ(file.text(2), "");
  EXPECT_FALSE(file.next().value());
  EXPECT_FALSE(file.next().value());
}

TEST(TraceFile, MissingColumnNamesWhatIsThere) {
  auto file = csv("id,size\n").value();
  EXPECT_FALSE(file.has_column("start"));
  EXPECT_EQ(file.column("start").error().message, "t.csv:1: there is no column start (there are id, size)");
}

TEST(TraceFile, BadNumbersAreToldByFileLineAndField) {
  auto file = csv("id,size\n1,12x\n2,99999999999999999999\n3,5\n4,\n5,nan\n").value();
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.integer(1).error().message, "t.csv:2: size: \"12x\" is not a whole number");
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.integer(1).error().message, "t.csv:3: size: 99999999999999999999 is out of range");
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.integer(1, 0, 4).error().message, "t.csv:4: size: 5 is not within 0 to 4");
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.integer(1).error().message, "t.csv:5: size: \"\" is not a whole number");
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.number(1).error().message, "t.csv:6: size: \"nan\" is not a number");
}

TEST(TraceFile, RowsOfTheWrongLengthAndOpenQuotesAreRefused) {
  auto file = csv("id,size\n1\n1,2,3\n\"1,2\n4,5\n").value();
  EXPECT_EQ(file.next().error().message, "t.csv:2: 1 fields where the header has 2");
  EXPECT_EQ(file.next().error().message, "t.csv:3: 3 fields where the header has 2");
  EXPECT_EQ(file.next().error().message, "t.csv:4: a quote does not close");
  EXPECT_TRUE(file.next().value());
  EXPECT_EQ(csv("").error().message, "t.csv:1: the first line must name the columns");
}

TEST(TraceFile, SwfSkipsRemarksAndCountsFields) {
  const std::string text = "; Version: 2\n  1 0 -1 30.5 4 -1 -1 4 60 -1 1 3 1 1 1 1 -1 -1\n2 0 5\n";
  auto file = TraceFile::from_bytes("t.swf", text, TraceForm::kSwf).value();
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.line(), 2u);
  EXPECT_EQ(file.integer(0).value(), 1);
  EXPECT_DOUBLE_EQ(file.number(3).value(), 30.5);
  EXPECT_EQ(file.integer(3).error().message, "t.swf:2: field 4: \"30.5\" is not a whole number");
  EXPECT_EQ(file.next().error().message, "t.swf:3: 3 fields where SWF has 18");
}

TEST(TraceFile, UnpacksGzipOfSeveralMembers) {
  auto file = csv(gzip("id,size\n1,2\n") + gzip("3,4\n")).value();
  ASSERT_TRUE(file.next().value());
  ASSERT_TRUE(file.next().value());
  EXPECT_EQ(file.integer(1).value(), 4);
  EXPECT_FALSE(file.next().value());
}

TEST(TraceFile, DamagedGzipGivesTheRowsBeforeTheDamageAndItsLine) {
  std::string text = "id,size\n";
  for (int i = 0; i < 20000; ++i) text += format("{},{}\n", i, i * 7919 % 10007);
  const std::string whole = gzip(text);
  auto cut = csv(whole.substr(0, whole.size() / 2)).value();
  std::size_t rows = 0;
  auto more = cut.next();
  for (; more.ok() && *more; more = cut.next()) ++rows;
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, Errc::kCorrupt);
  EXPECT_GT(rows, 1000u);
  EXPECT_EQ(more.error().message, format("t.csv:{}: the gzip stream is damaged: it ends in the middle", rows + 2));
  auto followed = csv(gzip("id\n1\n") + "rubbish").value();
  EXPECT_TRUE(followed.next().value());
  EXPECT_EQ(followed.next().error().message, "t.csv:3: the gzip stream is damaged: incorrect header check");
  EXPECT_EQ(csv("\x1f\x8b").error().code, Errc::kCorrupt);
}

TEST(TraceFile, MissingFileIsNotFound) {
  EXPECT_EQ(TraceFile::open("/nonexistent/trace.csv.gz").error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace lockstep::sim
