#include "container/image_manifest.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "container/blob_digest.h"

namespace lockstep {
namespace {

const std::string kA = "sha256:" + std::string(64, 'a'), kB = "sha256:" + std::string(64, 'b');

TEST(BlobDigest, IsThatOfTheBytes) {
  EXPECT_EQ(blob_digest_of("abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BlobDigest parts;
  parts.add("a");
  parts.add("bc");
  EXPECT_EQ(parts.text(), blob_digest_of("abc"));
  EXPECT_TRUE(is_blob_digest(kA));
  EXPECT_FALSE(is_blob_digest("sha256:../../etc/passwd"));
  EXPECT_FALSE(is_blob_digest("sha512:" + std::string(64, 'a')));
  EXPECT_FALSE(is_blob_digest(kA + "0"));
}

TEST(ImageManifest, OfOneImage) {
  const std::string text = format(
      R"({{"schemaVersion":2,"config":{{"mediaType":"application/vnd.docker.container.image.v1+json","size":12,"digest":"{}"}},)"
      R"("layers":[{{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","size":30,"digest":"{}"}}]}})",
      kA, kB);
  const auto manifest = parse_image_manifest(text);
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_FALSE(manifest->is_index);
  EXPECT_TRUE(manifest->is_dockers);
  EXPECT_EQ(manifest->config.digest, kA);
  ASSERT_EQ(manifest->layers.size(), 1u);
  EXPECT_EQ(manifest->layers[0], (BlobInfo{kB, 30, "application/vnd.docker.image.rootfs.diff.tar.gzip"}));
  EXPECT_EQ(bytes_of(*manifest), 42u);
}

TEST(ImageManifest, OfAnIndexTheMachinesOwn) {
  const std::string text = format(
      R"({{"manifests":[{{"digest":"{}","size":1,"platform":{{"os":"linux","architecture":"arm64","variant":"v8"}}}},)"
      R"({{"digest":"{}","size":2,"platform":{{"os":"linux","architecture":"amd64"}}}}]}})",
      kA, kB);
  const auto index = parse_image_manifest(text);
  ASSERT_TRUE(index.ok() && index->is_index);
  EXPECT_EQ(manifest_for(*index, "x86_64")->digest, kB);
  EXPECT_EQ(manifest_for(*index, "aarch64")->digest, kA);
  EXPECT_EQ(manifest_for(*index, "riscv64"), std::nullopt);
}

TEST(ImageManifest, WhatNamesNoBlobIsNone) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string("{\"config\":1}"),
        format(R"({{"config":{{"digest":"sha256:../../x","size":1}}}})"),
        format(R"({{"config":{{"digest":"{}","size":-1}}}})", kA),
        format(R"({{"config":{{"digest":"{}","size":1}},"layers":[{{"digest":"md5:00","size":1}}]}})", kA),
        std::string(kManifestMax + 1, ' ')})
    EXPECT_FALSE(parse_image_manifest(text).ok()) << text.substr(0, 100);
}

TEST(ImageManifest, WrittenAsItIsRead) {
  const BlobInfo config{kA, 5, "application/vnd.oci.image.config.v1+json"};
  const std::vector<BlobInfo> layers = {{kB, 7, "application/vnd.oci.image.layer.v1.tar"}};
  const auto manifest = parse_image_manifest(encode_oci_manifest(config, layers));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->config, config);
  EXPECT_EQ(manifest->layers, layers);
}

}  // namespace
}  // namespace lockstep
