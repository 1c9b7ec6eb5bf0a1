#include "container/image_blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {
namespace {

Error not_what_it_says(std::string_view digest) {
  return {Errc::kCorrupt, format("what was handed over as {} is something else", digest), {}};
}

}  // namespace

bool ImageBlobs::has(std::string_view digest) const {
  struct stat stat {};
  return is_blob_digest(digest) && ::lstat(path(digest).c_str(), &stat) == 0 && S_ISREG(stat.st_mode);
}

void ImageBlobs::used(std::string_view digest) const {
  if (is_blob_digest(digest))
    ::utimensat(AT_FDCWD, path(digest).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

Result<std::string> ImageBlobs::read(std::string_view digest, std::size_t most) const {
  std::string bytes = TRY(read_plain(path(digest), Links::kRefused, most));
  if (blob_digest_of(bytes) != digest)
    return not_what_it_says(digest);
  return bytes;
}

Result<void> ImageBlobs::keep(std::string_view digest, std::string_view bytes) const {
  if (blob_digest_of(bytes) != digest)
    return not_what_it_says(digest);
  if (has(digest))
    return {};
  TRY(make_folders(folder_));
  Incoming incoming = TRY(Incoming::open(folder_, std::string(digest), bytes.size()));
  TRY(incoming.add(bytes));
  return incoming.finish(*this);
}

Result<ImageBlobs::Incoming> ImageBlobs::Incoming::open(const std::string& folder, std::string digest,
                                                        std::uint64_t size) {
  Incoming incoming;
  incoming.path_ = format("{}/incoming-{}-{}", folder, hex_of_digest(digest), ::getpid());
  incoming.digest_ = std::move(digest);
  incoming.left_ = size;
  incoming.file_ =
      OpenFile(::open(incoming.path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  incoming.content_ = std::make_unique<BlobDigest>();
  if (!incoming.file_.valid())
    return os_error(incoming.path_);
  return incoming;
}

ImageBlobs::Incoming::~Incoming() {
  if (file_.valid())
    ::unlink(path_.c_str());
}

Result<void> ImageBlobs::Incoming::add(std::string_view bytes) {
  if (bytes.size() > left_)
    return not_what_it_says(digest_);
  content_->add(bytes);
  left_ -= bytes.size();
  while (!bytes.empty()) {
    const ssize_t size = ::write(file_.get(), bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      return os_error(path_);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return {};
}

Result<void> ImageBlobs::Incoming::finish(const ImageBlobs& store) {
  if (left_ != 0 || content_->text() != digest_)
    return not_what_it_says(digest_);
  if (::rename(path_.c_str(), store.path(digest_).c_str()) != 0)
    return os_error(path_);
  file_.close();
  return {};
}

}  // namespace lockstep
