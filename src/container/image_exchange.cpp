// The end that takes.
#include "container/image_exchange.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kLineMax = 512, kPieceBytes = 256 << 10;
constexpr std::string_view kGreeting = "lockstep-image/1 ";

std::int64_t exchange_clock_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

Error unusable(std::string_view why) { return {Errc::kUnavailable, std::string(why), {}}; }

}  // namespace

Result<ImagePeer> ImagePeer::greet(OpenFile stream, ImagePatience patience) {
  ImagePeer peer(std::move(stream), patience);
  const std::string line = TRY(peer.hear_line());
  if (!line.starts_with(kGreeting))
    return unusable("it speaks of something else");
  for (const char c : line.substr(kGreeting.size()))
    peer.node_.push_back(static_cast<unsigned char>(c) > ' ' && c != 0x7f ? c : '?');
  return peer;
}

Result<void> ImagePeer::say(const std::string& text) {
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t size = ::send(stream_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      return unusable("the connection broke");
    rest.remove_prefix(static_cast<std::size_t>(size));
  }
  return {};
}

Result<void> ImagePeer::fill() {
  pending_.erase(0, std::exchange(at_, 0));
  pollfd wait{stream_.get(), POLLIN, 0};
  const int ready = ::poll(&wait, 1, static_cast<int>(patience_.silent_ms));
  if (ready == 0)
    return unusable(format("nothing came for {} s", patience_.silent_ms / 1000));
  const std::size_t before = pending_.size();
  pending_.resize(before + kPieceBytes);
  const ssize_t size = ::recv(stream_.get(), pending_.data() + before, kPieceBytes, 0);
  pending_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (size <= 0 && !(size < 0 && errno == EINTR))
    return unusable("the connection ended");
  return {};
}

Result<std::string> ImagePeer::hear_line() {
  for (;;) {
    const std::size_t end = pending_.find('\n', at_);
    if (end != pending_.npos && end - at_ <= kLineMax) {
      std::string line = pending_.substr(at_, end - at_);
      at_ = end + 1;
      return line;
    }
    if (pending_.size() - at_ > kLineMax)
      return unusable("its words are too long");
    TRY(fill());
  }
}

Result<std::string> ImagePeer::hear_answer() {
  const std::int64_t began = exchange_clock_ms();
  std::int64_t moved = began;
  std::string last;
  for (;;) {
    std::string line = TRY(hear_line());
    if (!line.starts_with("wait "))
      return line;
    const std::int64_t now = exchange_clock_ms();
    if (line != last)
      moved = now;
    if (line.starts_with("wait idle") && now - moved > patience_.idle_ms)
      return unusable(format("nobody fetches it there since {} s", patience_.idle_ms / 1000));
    if (now - moved > patience_.stuck_ms)
      return unusable(format("its download does not go on since {} s", patience_.stuck_ms / 1000));
    last = std::move(line);
  }
}

Result<std::string> ImagePeer::which(const std::string& work) {
  TRY(say(format("which {}\n", work)));
  const std::string line = TRY(hear_answer());
  if (!line.starts_with("key ") || !is_blob_digest(line.substr(4)))
    return unusable("it has no image of this step");
  return line.substr(4);
}

Result<void> ImagePeer::hear_blob(const BlobInfo& blob, std::uint64_t size, const ImageBlobs& store,
                                  const std::string& folder, const Progress& progress) {
  auto incoming = TRY(ImageBlobs::Incoming::open(folder, blob.digest, size));
  while (incoming.left() > 0) {
    if (at_ == pending_.size())
      TRY(fill());
    const std::size_t piece = std::min<std::uint64_t>(incoming.left(), pending_.size() - at_);
    TRY(incoming.add(std::string_view(pending_).substr(at_, piece)));
    at_ += piece;
    if (progress)
      TRY(progress(piece));
  }
  return incoming.finish(store);
}

Result<void> ImagePeer::take(const std::string& key, const std::vector<BlobInfo>& blobs, std::uint64_t most,
                             const ImageBlobs& store, const std::string& folder, const Progress& progress) {
  std::vector<BlobInfo> missing;
  std::string ask = format("pull {}\n", key);
  for (const BlobInfo& blob : blobs) {
    const bool asked =
        std::any_of(missing.begin(), missing.end(), [&](const BlobInfo& other) { return other.digest == blob.digest; });
    if (asked || store.has(blob.digest))
      continue;
    missing.push_back(blob);
    ask += format("want {}\n", blob.digest);
  }
  if (missing.empty())
    return {};
  TRY(say(ask + "go\n"));
  while (!missing.empty()) {
    const auto words = split_words(TRY(hear_answer()));
    if (words.size() == 2 && words[0] == "none")
      return unusable("it does not have all of it");
    const auto size = words.size() == 3 && words[0] == "blob" ? parse_uint(words[2]) : std::nullopt;
    const auto blob = std::find_if(missing.begin(), missing.end(),
                                   [&](const BlobInfo& one) { return size && one.digest == words[1]; });
    if (blob == missing.end())
      return unusable("it answers what was not asked");
    if (blob->size > 0 ? *size != blob->size : *size > most)
      return unusable(format("{} has another length there", blob->digest));
    TRY(hear_blob(*blob, *size, store, folder, progress));
    missing.erase(blob);
  }
  return {};
}

}  // namespace lockstep
