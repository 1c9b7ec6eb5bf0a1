// The list of a backup's files, whoever wrote it.
#include "apps/lockstepd/backup_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "io/local/process.h"
#include "io/sha256.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

Result<void> no_progress(std::int64_t) { return {}; }

TEST(BackupFiles, AListIsReadAsItWasWritten) {
  const std::string digest = sha256_hex("x");
  const auto files = parse_sums(sums_text({{"lockstep.db", digest}, {"pki/ca.pem", digest}, {"manifest", digest}}));
  ASSERT_TRUE(files.ok()) << files.error().message;
  ASSERT_EQ(files->size(), 3u);
  EXPECT_EQ((*files)[1].name, "pki/ca.pem");
  EXPECT_EQ((*files)[1].sha256, digest);
}

TEST(BackupFiles, NothingElseIsBroughtIntoAStateDirectory) {
  const std::string digest = sha256_hex("x");
  for (const char* name :
       {"", "/etc/passwd", "../lockstep.db", "pki/../lockstep.id", "pki/", "pki/.x", "pki/a/b", "pki/a b", "nodes/x",
        "lockstep.restored", "lockstep.id", "public/api.sock", "lock", "pki", "."})
    EXPECT_FALSE(parse_sums(format("{}  {}\n", digest, name)).ok()) << name;
  for (const std::string& text : {std::string(), std::string("\n"), digest + "  manifest", digest + " manifest\n",
                                  digest.substr(1) + "  manifest\n", "x" + digest.substr(1) + "  manifest\n"})
    EXPECT_FALSE(parse_sums(text).ok()) << text;
}

TEST(BackupFiles, ACopyHasTheDigestOfWhatWasRead) {
  const TempDir dir;
  const std::string text(700'000, 'y');
  ASSERT_TRUE(write_file(dir.file("lockstep.db"), text).ok());
  const Folder folder = Folder::held(dir.path(), ::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(*digest_of(folder, "lockstep.db", no_progress), sha256_hex(text));
  const auto copied = copy_file(folder, "lockstep.db", folder, "copy", no_progress);
  ASSERT_TRUE(copied.ok()) << copied.error().message;
  EXPECT_EQ(*copied, sha256_hex(text));
  EXPECT_EQ(*read_file(dir.file("copy")), text);
  EXPECT_FALSE(copy_file(folder, "lockstep.db", folder, "copy", no_progress).ok()) << "nothing is written over";
  ASSERT_EQ(::symlink("/etc/passwd", dir.file("link").c_str()), 0);
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  for (const char* name : {"link", "fifo", "missing"}) EXPECT_FALSE(digest_of(folder, name, no_progress).ok()) << name;
  const auto stopped = digest_of(folder, "copy", [](std::int64_t) { return conflict("enough"); });
  EXPECT_EQ(stopped.error().message, "enough");
}

}  // namespace
}  // namespace lockstep
