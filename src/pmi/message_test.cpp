#include "pmi/message.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/text.h"
#include "pmi/control.h"

namespace lockstep {
namespace {

const std::vector<PmiMessage>& messages() {
  static const std::vector<PmiMessage> all = {PmiGather{"key", {1, 2}, std::string("a\0b", 3)},
                                              PmiGathered{"key", ""},
                                              PmiPassed{7, "data"},
                                              PmiAbort{-3, "why"},
                                              PmiJoined{},
                                              PmiLeft{5, "gone"},
                                              PmiName{PmiName::Do::kWithdraw, 9, "name", "value", true}};
  return all;
}

TEST(PmiMessageTest, RoundTripInPieces) {
  std::string bytes;
  for (const auto& message : messages()) bytes += encode_pmi_message(message);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    PmiMessageReader reader;
    std::vector<PmiMessage> read;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      ASSERT_TRUE(
          reader.feed(std::string_view(bytes).substr(at, piece), [&](PmiMessage m) { read.push_back(m); }).ok());
    EXPECT_EQ(read, messages());
  }
}

TEST(PmiMessageTest, RefusesWhatIsNone) {
  const auto why = [](std::string_view bytes) {
    PmiMessageReader reader;
    const auto read = reader.feed(bytes, [](const PmiMessage&) {});
    return read.ok() ? std::string("taken") : read.error().message;
  };
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(why("\0\0\0\0"sv), "a message of 0 bytes");
  EXPECT_EQ(why("\xff\xff\xff\xff"sv), "a message of 4294967295 bytes");
  EXPECT_EQ(why("\0\0\0\2\5x"sv), "a message that is shorter or longer than its fields");
  EXPECT_EQ(why("\0\0\0\3\3xx"sv), "a message that is shorter or longer than its fields");
  EXPECT_EQ(why("\0\0\0\1\11"sv), "a message of kind 9, which is not known");
  Rng rng(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = encode_pmi_message(messages()[rng.below(messages().size())]);
    for (int j = 0; j < 3; ++j) bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    PmiMessageReader reader;
    (void)reader.feed(bytes, [](const PmiMessage&) {});
  }
}

TEST(PmiControlTest, VariablesForEachTask) {
  const PmiVariables variables{{"A=1"}, {{"B=2", "C="}, {}}};
  const std::string bytes = encode_pmi_variables(variables);
  const auto read = decode_pmi_variables(bytes, 2);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->common, variables.common);
  EXPECT_EQ(read->by_local, variables.by_local);
  EXPECT_FALSE(decode_pmi_variables(bytes, 1).ok());
  EXPECT_FALSE(decode_pmi_variables(bytes, 3).ok());
  EXPECT_FALSE(decode_pmi_variables(encode_pmi_variables({{"no variable"}, {{}}}), 1).ok());
  EXPECT_FALSE(decode_pmi_variables(encode_pmi_variables({{std::string("A=\0", 3)}, {{}}}), 1).ok());
  EXPECT_FALSE(decode_pmi_variables(encode_pmi_variables({{"=x"}, {{}}}), 1).ok());
  EXPECT_FALSE(decode_pmi_variables(std::string("\xff\xff\xff\xff", 4), 1).ok());
}

TEST(PmiControlTest, ALockstepPmiIsHeldToItsBounds) {
  const auto feed = [](const std::string& bytes) {
    PmiControlReader reader(pmi_control_bound);
    std::vector<std::string> read;
    const auto fed = reader.feed(bytes, [&](PmiControl kind, std::string_view payload) {
      read.push_back(format("{} {}", static_cast<int>(kind), payload));
    });
    return fed.ok() ? join(read, ",") : fed.error().message;
  };
  EXPECT_EQ(feed(encode_pmi_control(PmiControl::kUp, "abc") + encode_pmi_control(PmiControl::kFailed, "no")),
            "65 abc,66 no");
  EXPECT_EQ(feed(encode_pmi_control(PmiControl::kUp, std::string(65 << 10, 'x'))),
            "a message of kind 65 with 66560 bytes");
  EXPECT_EQ(feed(encode_pmi_control(PmiControl::kWorld, "x")), "a message of kind 1 with 1 bytes");
  EXPECT_EQ(feed(std::string("\xff\xff\xff\xff\x40", 5)), "a message of kind 64 with 4294967295 bytes");
}

}  // namespace
}  // namespace lockstep
