#include "io/local/start_note.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/text.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

TEST(StartNote, TellsOfAProcessThatLivesAndGoesWithIt) {
  TempDir dir;
  const auto folder = Folder::make(dir.file("state"), 0700);
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  const std::string path = folder->path() + "/" + kStartNoteFile;
  {
    StartNote note(*folder);
    EXPECT_FALSE(read_start_note(path));
    note.say("its log is read", 200, 1000);
    const auto found = read_start_note(path);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->process.pid, getpid());
    EXPECT_EQ(found->what, "its log is read: entry 200 of 1000");
    note.say("accounting is brought up to date", 5, 1000);
    EXPECT_EQ(read_start_note(path)->what, "accounting is brought up to date: entry 5 of 1000") << "at once";
  }
  EXPECT_FALSE(read_start_note(path));
  // What a killed controller left, whose number somebody else has now; and what is no note.
  for (const std::string& text : {format("{} 1\nits log is read\n", getpid()), std::string("words"), std::string()}) {
    ASSERT_TRUE(write_file(path, text).ok());
    EXPECT_FALSE(read_start_note(path)) << text;
  }
}

}  // namespace
}  // namespace lockstep
