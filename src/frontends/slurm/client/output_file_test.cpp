#include "frontends/slurm/client/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace lockstep::slurm {
namespace {

struct OutputFiles : testing::Test {
  OutputFiles() {
    char name[] = "/tmp/output-file-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~OutputFiles() override { (void)!::system(("rm -r " + folder).c_str()); }
  std::string content(const std::string& name) const {
    std::ifstream file(folder + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string folder;
};

TEST_F(OutputFiles, WhatWasThereGoesWhenTheStepStarts) {
  std::ofstream(folder + "/a") << "old\n";
  {
    const auto file = OutputFile::open(folder + "/a");
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(content("/a"), "old\n") << "the job may still be refused";
    ASSERT_TRUE((*file)->begin(false).ok());
    EXPECT_EQ(content("/a"), "");
    (void)!::write((*file)->fd(), "new\n", 4);
  }
  const auto file = OutputFile::open(folder + "/a");
  ASSERT_TRUE((*file)->begin(true).ok());
  (void)!::write((*file)->fd(), "more\n", 5);
  EXPECT_EQ(content("/a"), "new\nmore\n");
}

TEST_F(OutputFiles, APipeNobodyReadsDoesNotBlock) {
  ASSERT_EQ(::mkfifo((folder + "/p").c_str(), 0600), 0);
  const auto file = OutputFile::open(folder + "/p");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE((*file)->waits_for_reader());
  EXPECT_TRUE((*file)->keep("first"));
  EXPECT_TRUE((*file)->has_kept());
  EXPECT_FALSE((*file)->keep(std::string(1 << 20, 'x'))) << "there is an end to what is kept";
  EXPECT_EQ((*file)->take_kept(), "first");
  const int reader = ::open((folder + "/p").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_FALSE((*file)->waits_for_reader());
  EXPECT_EQ(::write((*file)->fd(), "x", 1), 1);
  ::close(reader);
}

TEST_F(OutputFiles, APipeThatIsRemovedFails) {
  ASSERT_EQ(::mkfifo((folder + "/p").c_str(), 0600), 0);
  const auto file = OutputFile::open(folder + "/p");
  ASSERT_TRUE(file.ok());
  ::unlink((folder + "/p").c_str());
  ASSERT_EQ(::mkdir((folder + "/p").c_str(), 0700), 0);
  EXPECT_FALSE((*file)->waits_for_reader());
  EXPECT_EQ((*file)->failed(), EISDIR);
}

TEST_F(OutputFiles, WhatCannotBeOpenedIsSaid) {
  EXPECT_EQ(OutputFile::open(folder + "/no/such").error().message,
            "Could not open stdout file " + folder + "/no/such: No such file or directory");
  EXPECT_NE(OutputFile::open(folder).error().message.find("Is a directory"), std::string::npos);
  const std::string path = folder + "/s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_NE(OutputFile::open(path).error().message.find("it is a socket"), std::string::npos);
  ::close(fd);
  EXPECT_TRUE(OutputFile::check_folder(folder + "/x-%J").ok());
  EXPECT_FALSE(OutputFile::check_folder(folder + "/no/x-%J").ok());
}

}  // namespace
}  // namespace lockstep::slurm
