#include "container/image_reference.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Source = ImageReference::Source;

std::string transport(std::string_view text) {
  const auto image = parse_image(text);
  return image.ok() ? image->transport : "refused";
}

TEST(ImageReference, NamesOfRegistries) {
  EXPECT_EQ(transport("ubuntu"), "docker://docker.io/library/ubuntu:latest");
  EXPECT_EQ(transport("ubuntu:22.04"), "docker://docker.io/library/ubuntu:22.04");
  EXPECT_EQ(transport("nvidia/cuda:12.0"), "docker://docker.io/nvidia/cuda:12.0");
  EXPECT_EQ(transport("nvcr.io#nvidia/pytorch:24.01-py3"), "docker://nvcr.io/nvidia/pytorch:24.01-py3");
  EXPECT_EQ(transport("docker://nvcr.io#nvidia/pytorch:24.01-py3"), "docker://nvcr.io/nvidia/pytorch:24.01-py3");
  EXPECT_EQ(transport("nvcr.io/nvidia/pytorch:24.01-py3"), "docker://nvcr.io/nvidia/pytorch:24.01-py3");
  EXPECT_EQ(transport("localhost:5000#a/b"), "docker://localhost:5000/a/b:latest");
  EXPECT_EQ(transport("localhost:5000/a/b"), "docker://localhost:5000/a/b:latest");
  EXPECT_EQ(transport("registry-1.docker.io#a"), "docker://docker.io/library/a:latest");
}

TEST(ImageReference, UsersAndDigests) {
  const auto named = parse_image("$oauthtoken@nvcr.io#nvidia/cuda:12");
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->user, "$oauthtoken");
  EXPECT_EQ(named->registry, "nvcr.io");
  EXPECT_EQ(named->repository, "nvidia/cuda");
  EXPECT_EQ(named->digest, "");
  const std::string digest = "sha256:" + std::string(64, 'a');
  const auto pinned = parse_image("nvcr.io#nvidia/cuda@" + digest);
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(pinned->digest, digest);
  EXPECT_EQ(pinned->transport, "docker://nvcr.io/nvidia/cuda@" + digest);
  EXPECT_EQ(transport("docker://nvcr.io#nvidia/cuda@" + digest), "docker://nvcr.io/nvidia/cuda@" + digest);
  EXPECT_EQ(transport("docker://nvcr.io#nvidia/cuda:" + digest), "docker://nvcr.io/nvidia/cuda@" + digest);
  EXPECT_EQ(transport("ubuntu:" + digest), "docker://docker.io/library/ubuntu@" + digest);
  EXPECT_EQ(transport("localhost:5000#a:" + digest), "docker://localhost:5000/a@" + digest);
  EXPECT_EQ(transport("nvcr.io#nvidia/cuda:12.0@" + digest), "docker://nvcr.io/nvidia/cuda@" + digest);
  EXPECT_EQ(transport("ubuntu:sha256:12"), "refused");
  const auto both = parse_image("me@reg.io#x:1@" + digest);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->user + " " + both->transport, "me docker://reg.io/x@" + digest);
}

TEST(ImageReference, FilesAndLayouts) {
  const auto file = parse_image("/images/a.sqsh");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->source == Source::kFile && file->path == "/images/a.sqsh" && file->transport.empty());
  const auto layout = parse_image("oci:/images/dir:tag");
  ASSERT_TRUE(layout.ok());
  EXPECT_TRUE(layout->source == Source::kLayout && layout->path == "/images/dir");
  EXPECT_EQ(layout->transport, "oci:/images/dir:tag");
  const auto archive = parse_image("docker-archive:/images/a.tar");
  ASSERT_TRUE(archive.ok());
  EXPECT_TRUE(archive->source == Source::kArchive && archive->path == "/images/a.tar");
}

TEST(ImageReference, RefusesWhatCouldMeanSomethingElse) {
  for (const char* text : {"",
                           "Ubuntu",
                           "-x",
                           "a b",
                           "a\nb",
                           "nvcr.io#",
                           "nvcr.io#-o",
                           "#a",
                           "a:",
                           "a:-x",
                           "a:b/c:d",
                           "a//b",
                           "-h#a",
                           "host:99999#a",
                           "a@sha256:12",
                           "dockerd://a",
                           "containers-storage:/a://",
                           "http://x/y",
                           "a/../../b/",
                           "host:x#a"})
    EXPECT_EQ(transport(text), "refused") << text;
  EXPECT_EQ(transport(std::string(5000, 'a')), "refused");
}

TEST(ImageReference, LoopbackNeedsNoTls) {
  for (const char* host : {"localhost", "localhost:5000", "127.0.0.1:5000", "127.1.2.3"})
    EXPECT_TRUE(is_loopback_registry(host)) << host;
  for (const char* host : {"nvcr.io", "localhost.example.org", "127.example.org", "10.0.0.1:5000"})
    EXPECT_FALSE(is_loopback_registry(host)) << host;
}

}  // namespace
}  // namespace lockstep
