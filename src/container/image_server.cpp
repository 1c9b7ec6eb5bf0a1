// The end that has the image, or fetches it at the moment.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/image_exchange.h"
#include "container/image_store.h"
#include "container/step_files.h"
#include "model/work_id.h"

namespace lockstep {
namespace {

constexpr std::int64_t kWordEveryMs = 1000, kLookEveryMs = 20;
constexpr int kSilentMs = 600'000;  // without a wish: whoever unpacks meanwhile has all he wants
constexpr std::size_t kAskMax = 512, kAskedMax = kLayersMax + 16;

std::int64_t server_clock_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

bool is_there(const std::string& path) {
  struct stat stat {};
  return ::lstat(path.c_str(), &stat) == 0;
}

// Of what lies in a folder while it is fetched.
std::uint64_t bytes_under(const std::string& folder) {
  std::uint64_t bytes = 0;
  DIR* const open = ::opendir(folder.c_str());
  if (!open)
    return 0;
  struct stat stat {};
  while (const dirent* entry = ::readdir(open))
    if (::fstatat(::dirfd(open), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(stat.st_mode))
      bytes += static_cast<std::uint64_t>(stat.st_size);
  ::closedir(open);
  return bytes;
}

class ImageServer {
 public:
  ImageServer(const std::string& home, int stream) : home_(home), store_(home), stream_(stream) {}

  bool say(const std::string& text) const {
    for (std::string_view rest = text; !rest.empty();) {
      const ssize_t size = ::send(stream_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (size < 0 && errno == EINTR)
        continue;
      if (size <= 0)
        return false;
      rest.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
  }

  // One wish. False: the stream has ended.
  bool answer() {
    const std::string line = hear();
    const auto words = split_words(line);
    if (words.size() == 2 && words[0] == "which")
      return tell_which(words[1]);
    if (words.size() == 2 && words[0] == "pull" && is_blob_digest(words[1])) {
      key_ = image_key(words[1]);
      wanted_.clear();
      return true;
    }
    if (words.size() == 2 && words[0] == "want" && is_blob_digest(words[1]) && wanted_.size() < kAskedMax) {
      wanted_.push_back(words[1]);
      return true;
    }
    return words.size() == 1 && words[0] == "go" && !key_.empty() && hand_over();
  }

 private:
  std::string hear() {
    for (;;) {
      if (const std::size_t end = pending_.find('\n'); end != pending_.npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return line;
      }
      char piece[kAskMax];
      pollfd wait{stream_, POLLIN, 0};
      if (pending_.size() > kAskMax || ::poll(&wait, 1, kSilentMs) == 0)
        return {};
      const ssize_t size = ::recv(stream_, piece, sizeof piece, 0);
      if (size < 0 && errno == EINTR)
        continue;
      if (size <= 0)
        return {};
      pending_.append(piece, static_cast<std::size_t>(size));
    }
  }

  // Until the next look; once a second the other side hears why. False: it has gone.
  bool wait(bool busy, const std::string& part) {
    const std::int64_t now = server_clock_ms();
    if (now - said_ms_ >= kWordEveryMs) {
      said_ms_ = now;
      std::uint64_t bytes = 0;
      for (const char* folder : {"", "/layout", "/rootfs"}) bytes += part.empty() ? 0 : bytes_under(part + folder);
      if (!say(format("wait {} {}\n", busy ? "busy" : "idle", bytes)))
        return false;
    }
    pollfd gone{stream_, POLLRDHUP, 0};
    return ::poll(&gone, 1, kLookEveryMs) == 0;
  }

  // "" = nothing is said of the step yet.
  std::string word_of_step() const {
    const auto word = work_ ? read_plain(step_key_path(home_, *work_), Links::kRefused, kAskMax) : std::string();
    return word.ok() ? std::string(trim(*word)) : std::string();
  }

  bool tell_which(const std::string& work) {
    work_ = parse_work_id(work);
    if (!work_)
      return false;
    for (;;) {
      const std::string word = word_of_step();
      if (!word.empty() && word != "begun")
        return say(is_blob_digest(word) ? format("key {}\n", word) : "none -\n");
      if (!wait(word == "begun", {}))
        return false;
    }
  }

  bool hand_over() {
    const std::string image = format("{}/images/{}", home_, key_), part = image + ".part";
    while (!wanted_.empty()) {
      // In this order: what was renamed behind the first look is found by the second.
      const bool busy = is_there(part);
      const auto ready =
          std::find_if(wanted_.begin(), wanted_.end(), [&](const std::string& digest) { return store_.has(digest); });
      if (ready != wanted_.end()) {
        if (!send_blob(*ready))
          return false;
        wanted_.erase(ready);
      } else if (!busy && (is_there(image) || word_of_step() == "none")) {
        return say(format("none {}\n", wanted_.front()));
      } else if (!wait(busy, part)) {
        return false;
      }
    }
    return true;
  }

  bool send_blob(const std::string& digest) const {
    const auto fd = open_plain(store_.path(digest), O_RDONLY);
    struct stat stat {};
    if (!fd.ok())
      return false;
    const OpenFile file(*fd);
    if (::fstat(file.get(), &stat) != 0 || !say(format("blob {} {}\n", digest, stat.st_size)))
      return false;
    for (off_t left = stat.st_size; left > 0;) {
      const ssize_t size = ::sendfile(stream_, file.get(), nullptr, static_cast<std::size_t>(left));
      if (size < 0 && errno == EINTR)
        continue;
      if (size <= 0)
        return false;
      left -= size;
    }
    return true;
  }

  std::string home_;
  ImageBlobs store_;
  int stream_;
  std::string pending_, key_;
  std::optional<WorkId> work_;  // the step that was asked for
  std::vector<std::string> wanted_;
  std::int64_t said_ms_ = 0;
};

}  // namespace

int serve_images(const std::string& home, const std::string& node, int stream) {
  ImageServer server(home, stream);
  if (!home.starts_with('/') || !server.say(format("lockstep-image/1 {}\n", node)))
    return 2;
  while (server.answer()) {}
  return 0;
}

}  // namespace lockstep
