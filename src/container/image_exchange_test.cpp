// Both ends of handing an image on, over a socket: what is there, what comes later, and a node that lies.
#include "container/image_exchange.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <thread>

#include "base/text.h"
#include "container/image_store.h"
#include "container/step_files.h"

namespace lockstep {
namespace {

constexpr ImagePatience kShort = {.idle_ms = 1500, .stuck_ms = 2500, .silent_ms = 3000};

class ImageExchange : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/image-exchange-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    base_ = folder;
    for (const char* name : {"/there/blobs/sha256", "/there/images", "/here/blobs/sha256", "/here/part"})
      ASSERT_TRUE(make_folders(base_ + name).ok());
  }
  void TearDown() override {
    stream_.close();
    if (other_end_.joinable())
      other_end_.join();
    ASSERT_TRUE(remove_tree(base_).ok());
  }

  // The taker's end; the other one is served by what is given.
  ImagePeer connect(std::function<void(int)> other_end) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    other_end_ = std::thread([end = ends[1], other_end = std::move(other_end)] {
      other_end(end);
      ::close(end);
    });
    auto peer = ImagePeer::greet(OpenFile(ends[0]), kShort);
    EXPECT_TRUE(peer.ok()) << peer.error().message;
    return std::move(*peer);
  }
  ImagePeer connect_to_server() {
    return connect([home = base_ + "/there"](int end) { serve_images(home, "n1", end); });
  }
  Result<void> take(ImagePeer& peer, const std::vector<BlobInfo>& blobs) {
    return peer.take(key_, blobs, 1000, here(), base_ + "/here/part", [this](std::uint64_t piece) {
      taken_ += piece;
      return Result<void>();
    });
  }
  void say(int end, std::string_view text) { ASSERT_GT(::send(end, text.data(), text.size(), MSG_NOSIGNAL), 0); }
  static void drain(int end) {
    char bytes[4096];
    while (::recv(end, bytes, sizeof bytes, 0) > 0) {}
  }

  ImageBlobs there() const { return ImageBlobs(base_ + "/there"); }
  ImageBlobs here() const { return ImageBlobs(base_ + "/here"); }
  std::string part_there() const { return format("{}/there/images/{}.part", base_, image_key(key_)); }

  std::string base_;
  std::string key_ = blob_digest_of("manifest");
  std::uint64_t taken_ = 0;
  OpenFile stream_;
  std::thread other_end_;
};

BlobInfo blob_of(const std::string& bytes) { return {blob_digest_of(bytes), bytes.size(), {}}; }

TEST_F(ImageExchange, WhatIsThereIsHandedOverOnce) {
  const std::string big(3 << 20, 'x'), small = "small";
  ASSERT_TRUE(there().keep(blob_digest_of(big), big).ok());
  ASSERT_TRUE(there().keep(blob_digest_of(small), small).ok());
  ASSERT_TRUE(here().keep(blob_digest_of(small), small).ok());
  {
    ImagePeer peer = connect_to_server();
    EXPECT_EQ(peer.node(), "n1");
    ASSERT_TRUE(take(peer, {blob_of(small), blob_of(big), blob_of(big)}).ok());
  }
  EXPECT_EQ(*here().read(blob_digest_of(big), 4 << 20), big);
  EXPECT_EQ(taken_, big.size());  // the small one was here
}

TEST_F(ImageExchange, WhatIsFetchedThereIsWaitedFor) {
  const std::string early = "early", late = "late";
  ASSERT_TRUE(there().keep(blob_digest_of(early), early).ok());
  ASSERT_TRUE(make_folders(part_there()).ok());
  ImagePeer peer = connect_to_server();
  std::thread download([&] {
    while (!here().has(blob_digest_of(early))) ::usleep(1000);  // it does not wait for the other one
    EXPECT_TRUE(there().keep(blob_digest_of(late), late).ok());
  });
  const auto taken = take(peer, {blob_of(late), blob_of(early)});
  download.join();
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  EXPECT_TRUE(here().has(blob_digest_of(late)));
}

TEST_F(ImageExchange, WhatNobodyFetchesThereIsNotWaitedForLong) {
  ImagePeer peer = connect_to_server();
  const auto taken = take(peer, {blob_of("never")});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().message, "nobody fetches it there since 1 s");
}

TEST_F(ImageExchange, ADownloadThatStandsStillIsNotWaitedForLong) {
  ASSERT_TRUE(make_folders(part_there()).ok());
  ASSERT_TRUE(write_file(part_there() + "/half", "half").ok());
  ImagePeer peer = connect_to_server();
  const auto taken = take(peer, {blob_of("never")});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().message, "its download does not go on since 2 s");
}

TEST_F(ImageExchange, AnImageThatIsUnpackedButWhoseLayersHaveGoneIsSaidAtOnce) {
  ASSERT_TRUE(make_folders(format("{}/there/images/{}", base_, image_key(key_))).ok());
  ImagePeer peer = connect_to_server();
  const auto taken = take(peer, {blob_of("gone")});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().message, "it does not have all of it");
}

TEST_F(ImageExchange, WhichImageAStepHas) {
  StepContainer step;
  step.home = base_ + "/there";
  step.work = "12-1-0";
  const auto files = StepFiles::of(step);
  ASSERT_TRUE(files.ok());
  ASSERT_TRUE(files->publish_key("begun").ok());
  std::thread lookup([&] {
    ::usleep(50'000);
    EXPECT_TRUE(files->publish_key(key_).ok());
  });
  {
    ImagePeer peer = connect_to_server();
    const auto key = peer.which("12-1-0");
    lookup.join();
    ASSERT_TRUE(key.ok()) << key.error().message;
    EXPECT_EQ(*key, key_);
    EXPECT_FALSE(peer.which("12-1-7").ok());  // a step of which nothing is known there
  }
  other_end_.join();
  ImagePeer peer = connect_to_server();
  EXPECT_FALSE(peer.which("../../etc").ok());
}

TEST_F(ImageExchange, ANodeThatLiesSpoilsNothing) {
  const BlobInfo wanted = blob_of("true");
  for (const std::string& lie :
       {format("blob {} 4\nfals", wanted.digest), format("blob {} 5\ntrue!", wanted.digest),
        format("blob {} 4\ntr", wanted.digest), format("blob {} 99999999999999999999\n", wanted.digest),
        format("blob {} 4\ntrue", blob_digest_of("other")), std::string("blob ../../x 4\ntrue"),
        std::string(100'000, 'x'), std::string("\n"), std::string()}) {
    ImagePeer peer = connect([&](int end) {
      say(end, "lockstep-image/1 liar\n");
      if (!lie.empty())
        say(end, lie);
      ::shutdown(end, SHUT_WR);
      drain(end);
    });
    EXPECT_FALSE(take(peer, {wanted}).ok()) << lie.substr(0, 100);
    EXPECT_FALSE(here().has(wanted.digest));
    { const ImagePeer gone = std::move(peer); }
    other_end_.join();
  }
}

}  // namespace
}  // namespace lockstep
