#include "shim/container_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <thread>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {
namespace {

using Stream = ContainerLog::Stream;

class ContainerLogs : public ::testing::Test {
 protected:
  ContainerLogs() {
    char name[] = "/tmp/container-log-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~ContainerLogs() override {
    for (const char* file : {"log", "log.1", "log.2", "log.3", "log.4", "alive"})
      ::unlink(format("{}/{}", folder_, file).c_str());
    ::rmdir(folder_.c_str());
  }
  ContainerLog open() { return std::move(*ContainerLog::open(folder_ + "/log")); }

  std::string sent(const ContainerAsk& ask) const {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    std::thread sender([&] {
      send_log(ends[1], folder_, ask);
      ::close(ends[1]);
    });
    std::string out;
    char chunk[4096];
    for (ssize_t n; (n = ::read(ends[0], chunk, sizeof chunk)) > 0;) out.append(chunk, static_cast<std::size_t>(n));
    sender.join();
    ::close(ends[0]);
    return out;
  }
  std::string sent(std::int64_t tail) const {
    ContainerAsk ask;
    ask.tail = tail;
    return sent(ask);
  }

  std::string folder_;
};

TEST_F(ContainerLogs, lines_of_both_streams_stand_behind_their_times) {
  {
    auto log = open();
    log.take(Stream::kOutput, "one\ntw");
    log.take(Stream::kError, "bad\n");
    log.take(Stream::kOutput, "o\nrest");
    log.end();
  }
  EXPECT_EQ(sent(-1), "one\nbad\ntwo\nrest");
  ContainerAsk ask;
  ask.times = true;
  const auto lines = split(sent(ask), '\n');
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) {
    EXPECT_EQ(line[19], '.') << line;
    EXPECT_EQ(line[29], 'Z') << line;
  }
  EXPECT_EQ(lines[0].substr(30), " one");
  EXPECT_EQ(lines[1].substr(30), " bad");
  EXPECT_EQ(lines[3].substr(30), " rest");
  const auto written = read_plain(folder_ + "/log");
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(split(*written, '\n')[1].substr(30), " stderr F bad");
  EXPECT_EQ(split(*written, '\n')[3].substr(30), " stdout P rest");
}

TEST_F(ContainerLogs, times_are_written_with_nine_digits) {
  EXPECT_EQ(log_time(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(log_time(1'700'000'000'000'000'042), "2023-11-14T22:13:20.000000042Z");
}

TEST_F(ContainerLogs, the_last_lines_and_bytes_may_be_asked_for) {
  {
    auto log = open();
    for (int i = 0; i < 100; ++i) log.take(Stream::kOutput, format("line {}\n", i));
  }
  EXPECT_EQ(sent(2), "line 98\nline 99\n");
  EXPECT_EQ(sent(0), "");
  EXPECT_TRUE(sent(1000).starts_with("line 0\n"));
  ContainerAsk ask;
  ask.bytes_max = 9;
  EXPECT_EQ(sent(ask), "line 0\nli");
  ask = {};
  ask.since = WallTime{std::int64_t{4'000'000'000} * 1'000'000};
  EXPECT_EQ(sent(ask), "");
  ask.since = WallTime{1};
  EXPECT_TRUE(sent(ask).starts_with("line 0\n"));
  EXPECT_EQ(log_tail(folder_ + "/log", 2, 100), "line 98\nline 99\n");
  EXPECT_EQ(log_tail(folder_ + "/log", 80, 10), "8\nline 99\n");
}

TEST_F(ContainerLogs, a_long_line_is_written_in_parts_and_read_as_one) {
  const std::string text(40'000, 'x');
  {
    auto log = open();
    log.take(Stream::kOutput, text);
    log.take(Stream::kOutput, "\nnext\n");
  }
  EXPECT_EQ(sent(-1), text + "\nnext\n");
}

TEST_F(ContainerLogs, a_file_that_has_become_long_is_followed_by_another_and_the_oldest_go) {
  const std::string line = std::string(9'999, 'y') + "\n";
  {
    auto log = open();
    log.take(Stream::kOutput, "first\n");
    for (int i = 0; i < 7'000; ++i) log.take(Stream::kOutput, line);
    log.take(Stream::kOutput, "last\n");
  }
  EXPECT_EQ(::access((folder_ + "/log.4").c_str(), R_OK), 0);
  EXPECT_NE(::access((folder_ + "/log.5").c_str(), R_OK), 0);
  const std::string all = sent(-1);
  EXPECT_TRUE(all.ends_with("y\nlast\n"));
  EXPECT_EQ(all.find("first"), all.npos);
  EXPECT_GT(all.size(), std::size_t{4 * (10 << 20)});
  EXPECT_LT(all.size(), std::size_t{5 * (10 << 20)});
  EXPECT_EQ(sent(2), line + "last\n");
}

TEST_F(ContainerLogs, it_is_shown_where_others_look_for_it) {
  const std::string shown = folder_ + "/shown", line = std::string(9'999, 'y') + "\n";
  {
    auto log = std::move(*ContainerLog::open(folder_ + "/log", shown));
    log.take(Stream::kOutput, "first\n");
    const auto begun = read_plain(shown);
    ASSERT_TRUE(begun.ok());
    EXPECT_TRUE(begun->ends_with(" stdout F first\n"));
    for (int i = 0; i < 1'100; ++i) log.take(Stream::kOutput, line);
    log.take(Stream::kOutput, "last\n");
  }
  const auto before = read_plain(shown + ".1"), now = read_plain(shown);
  ASSERT_TRUE(before.ok() && now.ok());
  EXPECT_NE(before->find("first"), before->npos);
  EXPECT_TRUE(now->ends_with("last\n"));
  EXPECT_EQ(*now, *read_plain(folder_ + "/log"));
  for (const std::string& file : {shown, shown + ".1"}) ::unlink(file.c_str());
}

TEST_F(ContainerLogs, who_follows_hears_until_the_writer_is_gone) {
  const int alive = ::open((folder_ + "/alive").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(alive, LOCK_EX), 0);
  auto log = open();
  log.take(Stream::kOutput, "before\n");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::thread reader([&] {
    ContainerAsk ask;
    ask.follow = true;
    send_log(ends[1], folder_, ask);
    ::close(ends[1]);
  });
  char chunk[64];
  EXPECT_EQ(std::string(chunk, static_cast<std::size_t>(::read(ends[0], chunk, sizeof chunk))), "before\n");
  log.take(Stream::kOutput, "after\n");
  EXPECT_EQ(std::string(chunk, static_cast<std::size_t>(::read(ends[0], chunk, sizeof chunk))), "after\n");
  ::flock(alive, LOCK_UN);
  EXPECT_EQ(::read(ends[0], chunk, sizeof chunk), 0);
  reader.join();
  ::close(alive);
  ::close(ends[0]);
}

}  // namespace
}  // namespace lockstep
