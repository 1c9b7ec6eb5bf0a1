// How a node hands a user's image to the same user on another node. Both ends have his rights, on the node where they
// run, and speak over a stream that their agents join (docs/decisions/0018-images-once.md):
//
//   lockstep-image/1 NODE          the one who has it, first
//   which WORK                     which image the step called so has: "key DIGEST", or "none" when that failed
//   pull DIGEST                    what follows is about this image; no answer
//   want DIGEST … go               its parts: for each "blob DIGEST SIZE" and the bytes as soon as it is there, in any
//                                  order, or "none DIGEST"
//   wait busy|idle BYTES           once a second while nothing else can be said: whether it is being fetched there, and
//                                  how much of it is under way
//
// Whoever takes believes nothing: parts are what their digests say, and there is an end to waiting.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "container/image_blobs.h"
#include "container/image_manifest.h"
#include "container/open_file.h"

namespace lockstep {

// Serves one stream until it ends. home: of the user's images; node: what it is called. The exit code.
int serve_images(const std::string& home, const std::string& node, int stream);

struct ImagePatience {
  std::int64_t idle_ms = 10'000;    // for a node to begin with it
  std::int64_t stuck_ms = 60'000;   // while nothing of it moves there
  std::int64_t silent_ms = 20'000;  // without a word or a byte
};

// The end that takes.
class ImagePeer {
 public:
  // Told of the bytes of blobs as they come. An Error ends the taking.
  using Progress = std::function<Result<void>(std::uint64_t bytes)>;
  static Result<ImagePeer> greet(OpenFile stream, ImagePatience patience);

  const std::string& node() const { return node_; }
  // The digest of the image that a step of that name has there.
  Result<std::string> which(const std::string& work);
  // Of the image with this digest. `most`: how long each may be that has no size. What is there already is not asked
  // for. folder: where they lie meanwhile.
  Result<void> take(const std::string& key, const std::vector<BlobInfo>& blobs, std::uint64_t most,
                    const ImageBlobs& store, const std::string& folder, const Progress& progress);

 private:
  ImagePeer(OpenFile stream, ImagePatience patience) : stream_(std::move(stream)), patience_(patience) {}
  Result<void> say(const std::string& text);
  Result<void> fill();  // more bytes into pending_
  Result<std::string> hear_line();
  Result<std::string> hear_answer();  // not a "wait", of which there are not too many
  Result<void> hear_blob(const BlobInfo& blob, std::uint64_t size, const ImageBlobs& store, const std::string& folder,
                         const Progress& progress);

  OpenFile stream_;
  ImagePatience patience_;
  std::string node_, pending_;
  std::size_t at_ = 0;  // of pending_, read
};

}  // namespace lockstep
