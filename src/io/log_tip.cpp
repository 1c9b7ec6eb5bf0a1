#include "io/log_tip.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {

namespace {

// The magic names the layout, too.
constexpr std::uint64_t kMagicOfOld = 0x70697470656b6c31;  // magic, index, mark, check
constexpr std::uint64_t kMagic = 0x70697470656b6c32;       // magic, index, mark, next job, check
using Words = std::array<std::uint64_t, 5>;

std::uint64_t check_of(const Words& words, std::size_t count) {
  std::uint64_t h = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < count; ++i) {
    h = (h ^ words[i]) * 0xff51afd7ed558ccd;
    h ^= h >> 33;
  }
  return h;
}

// How many words it has before its check; 0 = it is no tip.
std::size_t words_of(const Words& words, std::size_t bytes) {
  const std::size_t count = words[0] == kMagic ? 4 : words[0] == kMagicOfOld ? 3 : 0;
  return count > 0 && bytes >= (count + 1) * sizeof words[0] && words[count] == check_of(words, count) ? count : 0;
}

}  // namespace

LogTip::~LogTip() {
  if (file_ >= 0)
    ::close(file_);
}

Result<LogTip::Found> LogTip::read() const {
  const auto fd = open_plain(path_, O_RDONLY);
  if (!fd) {
    if (fd.error().code == Errc::kNotFound)
      return Found{};
    return Error{Errc::kIo,
                 format("{}. That file says up to where the log must go: make it readable, or remove it to go on "
                        "without it",
                        fd.error().message),
                 {}};
  }
  Words words{};
  const ssize_t n = ::pread(*fd, words.data(), sizeof words, 0);
  ::close(*fd);
  const std::size_t count = n > 0 ? words_of(words, static_cast<std::size_t>(n)) : 0;
  if (count == 0)
    return Found{State::kDamaged, {}};
  return Found{State::kWhole, {words[1], static_cast<std::int64_t>(words[2]), count > 3 ? words[3] : 0}};
}

void LogTip::write(const Tip& tip) {
  if (file_ < 0)
    if (const auto opened = open_plain(path_, O_WRONLY | O_CREAT))
      file_ = *opened;
  if (file_ < 0)
    return;
  Words words{kMagic, tip.index, static_cast<std::uint64_t>(tip.mark), tip.next_job, 0};
  words[4] = check_of(words, 4);
  (void)!::pwrite(file_, words.data(), sizeof words, 0);
}

}  // namespace lockstep
