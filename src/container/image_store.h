// The images of one user on one node, unpacked, by what is in them. All of it belongs to the user and is made with the
// user's rights: nobody else's container can be made of it, and a registry's word on who may have an image is its word
// on who has it here.
//
//   HOME/blobs/sha256/…         layers as registries have them, shared by the images that have them in common
//   HOME/images/KEY/rootfs      an image's files; KEY is the manifest's digest, or a file's inode and time
//   HOME/images/KEY/config.json its configuration; images from squashfs have none
//   HOME/images/KEY.part        being made, under the lock KEY.lock
//   HOME/names/KEY              of a store of root's: which image a name meant when it was asked for last
//   HOME/shown/KEY              likewise: which logins its registry has taken for it, as sums; none: it asked for none
//
// Of root's containers that are not alone in a user namespace the files belong to whom the image says: such an image
// lies in the store under a key of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "container/image_config.h"
#include "container/image_pull.h"
#include "container/image_reference.h"

namespace lockstep {

struct StoredImage {
  std::string key;
  std::string rootfs;  // its folder; nobody may write there
  ImageConfig config;
};

// The name of an image's folder: its digest without the colon, which would part a path from a tag for the tools.
std::string image_key(std::string_view digest);

class ImageStore {
 public:
  using Tell = std::function<void(const std::string& line)>;
  enum class Owners : unsigned char { kUser, kAsPacked };  // of the files; kAsPacked: for root alone
  ImageStore(std::string home, Tell tell, Owners owners = Owners::kUser)
      : home_(std::move(home)), tell_(std::move(tell)), owners_(owners) {}

  // From the store, after the registry was asked which image that is; what is not there is fetched. Concurrent callers
  // wait for the first one. peers: of an image in a registry, who else wants it.
  Result<StoredImage> fetch(const ImageReference& image, ImagePeers peers = {});
  // What the name meant when it was fetched last, without asking anybody. kNotFound: it is not in the store.
  Result<StoredImage> known(std::string_view name) const;
  void remember(std::string_view name, const std::string& key) const;
  // An image of root's store serves many who are not root: one that its registry gave for a login is for those who
  // show the same, or whom the registry is asked about. login: "" = it was given to whoever asks.
  void note_login(const std::string& key, std::string_view login) const;
  bool is_for(const std::string& key, const std::vector<std::string>& logins) const;
  std::string key_of(std::string_view digest) const { return key_for(image_key(digest)); }
  // What was stored under a key before.
  Result<StoredImage> open(const std::string& key) const;
  // Images and layers that nobody has asked for within so many seconds. Only while no job of the user is on the node:
  // containers that run are made of them.
  Result<void> remove_unused(std::int64_t seconds) const;

 private:
  Result<StoredImage> made(const std::string& key, const std::function<Result<void>(const std::string& part)>& unpack);
  Result<void> unpack_file(const ImageReference& image, const std::string& part) const;
  Result<void> unpack_squashfs(const std::string& file, const std::string& part) const;
  Result<void> unpack_layout(const std::string& layout, const std::string& part) const;

  std::string key_for(std::string key) const;

  std::string home_;
  Tell tell_;
  Owners owners_;
};

}  // namespace lockstep
