#include "wire/pmi_frame.h"

#include <gtest/gtest.h>

#include "wire/resend_log.h"

namespace lockstep {
namespace {

TEST(PmiFrameTest, RoundTrips) {
  const std::string up = encode(PmiUp{5, 6, 7, true, "bytes"});
  const auto up_read = decode_pmi_up(up);
  ASSERT_TRUE(up_read);
  EXPECT_EQ(std::tie(up_read->offset, up_read->got_own, up_read->got_all, up_read->fresh),
            std::make_tuple(5u, 6u, 7u, true));
  EXPECT_EQ(up_read->bytes, "bytes");
  const std::string down = encode(PmiDown{true, 8, 9, ""});
  const auto down_read = decode_pmi_down(down);
  ASSERT_TRUE(down_read);
  EXPECT_EQ(std::tie(down_read->to_all, down_read->offset, down_read->got), std::make_tuple(true, 8u, 9u));
  EXPECT_EQ(down_read->bytes, "");
}

TEST(PmiFrameTest, WhatIsShortOrBeyondAllBoundsIsNone) {
  EXPECT_FALSE(decode_pmi_up(std::string(24, '\0')));
  EXPECT_FALSE(decode_pmi_down(std::string(16, '\0')));
  EXPECT_FALSE(decode_pmi_up(std::string(30, '\x7f')));
  EXPECT_FALSE(decode_pmi_down(std::string(30, '\xff')));
}

TEST(ResendLogTest, KeepsWhatIsNotConfirmed) {
  ResendLog log;
  log.append("0123");
  log.append("456789");
  EXPECT_EQ(log.read(3, 4), "3456");
  log.trim(4);
  EXPECT_EQ(log.base(), 4u);
  EXPECT_EQ(log.read(4, 100), "456789");
  EXPECT_EQ(log.read(0, 2), "45");  // what is gone is not there
  log.trim(2);
  log.trim(1000);
  EXPECT_EQ(log.base(), 10u);
  EXPECT_EQ(log.size(), 0u);
  log.append("ab");
  EXPECT_EQ(log.read(10, 9), "ab");
}

}  // namespace
}  // namespace lockstep
