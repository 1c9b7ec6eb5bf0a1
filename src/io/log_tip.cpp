#include "io/log_tip.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kMagic = 0x70697470656b6c31;  // names the layout, too
using Words = std::array<std::uint64_t, 4>;           // magic, index, mark, check

std::uint64_t check_of(const Words& words) {
  std::uint64_t h = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < 3; ++i) {
    h = (h ^ words[i]) * 0xff51afd7ed558ccd;
    h ^= h >> 33;
  }
  return h;
}

}  // namespace

LogTip::~LogTip() {
  if (file_ >= 0)
    ::close(file_);
}

Result<std::optional<LogTip::Tip>> LogTip::read() const {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ENOENT)
      return std::optional<Tip>();
    return Error{Errc::kIo, format("cannot read {}: {}", path_, std::strerror(errno)), {}};
  }
  Words words{};
  const ssize_t n = ::pread(fd, words.data(), sizeof words, 0);
  ::close(fd);
  if (n != static_cast<ssize_t>(sizeof words) || words[0] != kMagic || words[3] != check_of(words))
    return std::optional<Tip>();
  return std::optional(Tip{words[1], static_cast<std::int64_t>(words[2])});
}

void LogTip::write(const Tip& tip) {
  if (file_ < 0)
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0)
    return;
  Words words{kMagic, tip.index, static_cast<std::uint64_t>(tip.mark), 0};
  words[3] = check_of(words);
  (void)!::pwrite(file_, words.data(), sizeof words, 0);
}

}  // namespace lockstep
