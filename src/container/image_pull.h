// Brings an image of a registry into an OCI layout whose blobs are the user's store: from a node of the same job that
// has it or is about to (docs/decisions/0018-images-once.md), else from the registry.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "container/image_exchange.h"
#include "container/image_reference.h"
#include "container/store_room.h"

namespace lockstep {

// The other nodes that want the same image now.
struct ImagePeers {
  // A stream to the node to be asked: 0 the nearest, 1 the first of all. kNotFound: none, we are to ask the registry.
  std::function<Result<ImagePeer>(unsigned hop)> reach;
  std::string work;  // the step that all of them run, so that they agree on what a tag means; "" = each asks for itself
  std::function<void(std::string_view word)> publish;  // for those who ask us which image it is
};

class ImagePull {
 public:
  using Tell = std::function<void(const std::string& line)>;
  ImagePull(ImageReference image, std::string home, ImagePeers peers, Tell tell);

  // The digest of the image. Where the name says it nobody is asked.
  Result<std::string> find();
  // part: a folder that is there, where unfinished things may lie; layout: one in it, with the store as its blobs.
  Result<void> fetch(const std::string& digest, const std::string& part, const std::string& layout);

 private:
  Result<ImagePeer> reach(unsigned hop);
  Result<std::string> find_in_registry();
  Result<void> take_from(ImagePeer& peer, const std::string& digest, const std::string& part,
                         const std::string& layout);
  Result<void> make_room(const ImageManifest& manifest) const;
  Result<void> take_from_registry(const std::string& digest, const std::string& layout);
  std::optional<ImageManifest> manifests_from_registry(const class RegistryClient& registry, std::string& digest);

  ImageReference image_;
  std::string home_;
  ImageBlobs store_;
  StoreRoom room_;
  ImagePeers peers_;
  Tell tell_;
  std::optional<ImagePeer> peer_;  // that answered already
  unsigned hop_ = 0;               // the next one to be asked
};

}  // namespace lockstep
