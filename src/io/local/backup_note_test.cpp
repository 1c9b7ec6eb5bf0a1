#include "io/local/backup_note.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "io/local/process.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

BackupFacts some_facts() { return {"1.2", "one\ntwo", "2026-03-01T12:00:00Z", 77, 99, "host", "/a b/c=d", "0123"}; }

TEST(BackupNote, AManifestIsReadAsItWasWritten) {
  const auto read = parse_facts(facts_text(some_facts()));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->cluster, "one?two") << "a value stands in one line";
  EXPECT_EQ(read->from, "/a b/c=d");
  EXPECT_EQ(read->entry, 77u);
  EXPECT_EQ(read->seq, 99u);
}

TEST(BackupNote, WhatIsNewerOrNoManifestIsRefused) {
  const std::string text = facts_text(some_facts());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return parse_facts(changed);
  };
  EXPECT_EQ(with("format=1", "format=2").error().code, Errc::kUnsupported);
  EXPECT_EQ(with("format=1", "format=x").error().code, Errc::kCorrupt);
  EXPECT_EQ(with("entry=77", "entry=many").error().code, Errc::kCorrupt);
  EXPECT_EQ(with("host=", "guest=").error().code, Errc::kCorrupt);
  EXPECT_EQ(with("host=host", "host").error().code, Errc::kCorrupt);
  EXPECT_EQ(parse_facts("").error().code, Errc::kCorrupt);
  for (std::size_t size = 0; size < text.size(); ++size) (void)parse_facts(text.substr(0, size));
}

TEST(BackupNote, ARestoredDirectorySaysWhetherItIsWhole) {
  const TempDir dir;
  EXPECT_FALSE(*read_restore_note(dir.path())) << "it was not restored";
  for (const bool is_whole : {false, true}) {
    ASSERT_TRUE(write_file(dir.file(kRestoreNote), restore_note_text({is_whole, some_facts()})).ok());
    const auto note = read_restore_note(dir.path());
    ASSERT_TRUE(note.ok() && *note);
    EXPECT_EQ((*note)->is_whole, is_whole);
    EXPECT_EQ((*note)->of.mark, "0123");
  }
  for (const char* damaged : {"", "restored=whole\n", "restored=perhaps\nformat=1\n"}) {
    ASSERT_TRUE(write_file(dir.file(kRestoreNote), damaged).ok());
    EXPECT_FALSE(read_restore_note(dir.path()).ok()) << damaged;
  }
}

}  // namespace
}  // namespace lockstep
