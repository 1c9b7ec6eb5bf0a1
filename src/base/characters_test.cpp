#include "base/characters.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Characters, FindsWhatATerminalWouldActOn) {
  for (const std::string_view fine : {"", "train", "größe 𝄞 €", "a~ ", "\xff\xfe", "\xc2\xa0", "\xe2\x82\xac"})
    EXPECT_FALSE(control_character_in(fine)) << fine;
  EXPECT_EQ(control_character_in("a\x1b[2J"), 27u);
  EXPECT_EQ(control_character_in("a\nb"), 10u);
  EXPECT_EQ(control_character_in(std::string_view("a\0b", 3)), 0u);
  EXPECT_EQ(control_character_in("\x7f"), 127u);
  EXPECT_EQ(control_character_in("a\xc2\x9b"
                                 "2J"),
            0x9bu)
      << "CSI as UTF-8";
  EXPECT_EQ(control_character_in("a\x9b"
                                 "2J"),
            0x9bu)
      << "CSI as a byte";
  EXPECT_EQ(control_character_in("\xe2\x82"), 0x82u) << "what a cut character leaves";
}

TEST(Characters, FindsThemAtAnyPlace) {
  const std::string fine = " the quick brown fox ~ jumps over";
  for (std::size_t at = 0; at < fine.size(); ++at)
    for (unsigned code = 0; code < 256; ++code) {
      std::string text = fine;
      text[at] = static_cast<char>(code);
      const bool is_control = code < 32 || (code >= 127 && code < 160);
      EXPECT_EQ(control_character_in(text), is_control ? std::optional(code) : std::nullopt) << at;
    }
}

TEST(Characters, SomeMayBeAllowed) {
  EXPECT_FALSE(control_character_in("a\tb\nc", "\t\n"));
  EXPECT_EQ(control_character_in("a\tb\rc", "\t\n"), 13u);
}

TEST(Characters, AreTakenOut) {
  EXPECT_EQ(without_control_characters("größe", 100), "größe");
  EXPECT_EQ(without_control_characters("a\x1b[2J\n", 100), "a?[2J?");
  EXPECT_EQ(without_control_characters("abcdef", 3), "abc");
}

}  // namespace
}  // namespace lockstep
