#include "renewal.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

// A node's folder with its certificate, and the next one beside it, or parts of that.
class RenewalFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    ca_ = std::move(*ClusterCa::open_or_make(dir_.file("ca"), "demo"));
    own_ = {dir_.file("ca.crt"), dir_.file("node.crt"), dir_.file("node.key")};
    next_ = Renewal::next_of(own_);
    ASSERT_TRUE(write_file_durably(own_.ca, ca_->certificate_pem(), 0644).ok());
    put(own_);
  }
  void put(const TlsFiles& files) {
    const auto fresh = make_key_and_request("node");
    ASSERT_TRUE(write_file_durably(files.key, fresh->key_pem, 0600).ok());
    ASSERT_TRUE(write_file_durably(files.certificate,
                                   *ca_->sign(fresh->request_pem, {.name = "node:n1", .role = "compute"}), 0644)
                    .ok());
  }
  static std::string text(const std::string& path) {
    const auto got = read_plain(path);
    return got.ok() ? *got : "";
  }
  bool is_whole() const { return check_usable(own_).ok(); }

  TempDir dir_;
  std::unique_ptr<ClusterCa> ca_;
  TlsFiles own_, next_;
};

TEST_F(RenewalFiles, WithoutANextOneNothingIsDone) {
  EXPECT_FALSE(*settle_renewal(own_));
  EXPECT_TRUE(is_whole());
}

TEST_F(RenewalFiles, AWholeNextOneWaitsForItsHello) {
  put(next_);
  const std::string before = text(own_.certificate);
  EXPECT_TRUE(*settle_renewal(own_));
  EXPECT_EQ(text(own_.certificate), before);
  EXPECT_NE(text(next_.certificate), "");
}

TEST_F(RenewalFiles, AKeyWithoutItsCertificateGoes) {
  put(next_);
  ASSERT_EQ(unlink(next_.certificate.c_str()), 0);
  EXPECT_FALSE(*settle_renewal(own_));
  EXPECT_EQ(text(next_.key), "");
  EXPECT_TRUE(is_whole());
}

TEST_F(RenewalFiles, AnAdoptionThatWasCutIsBroughtToItsEnd) {
  put(next_);
  const std::string certificate = text(next_.certificate);
  ASSERT_EQ(rename(next_.key.c_str(), own_.key.c_str()), 0);
  EXPECT_FALSE(is_whole());
  EXPECT_FALSE(*settle_renewal(own_));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(text(own_.certificate), certificate);
  EXPECT_EQ(text(next_.certificate), "");
}

TEST_F(RenewalFiles, WhatBelongsToNothingGoes) {
  put(next_);
  ASSERT_TRUE(write_file_durably(next_.key, "rubbish", 0600).ok());
  EXPECT_FALSE(*settle_renewal(own_));
  EXPECT_EQ(text(next_.key) + text(next_.certificate), "");
  EXPECT_TRUE(is_whole());
}

}  // namespace
}  // namespace lockstep
