#include "io/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep {
namespace {

Error failed(const std::string& path) { return {Errc::kIo, format("{}: {}", path, ::strerror(errno)), {}}; }

Result<void> write_all(int fd, const std::string& bytes, std::size_t at, const std::string& path) {
  const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
  if (n == static_cast<ssize_t>(bytes.size()))
    return {};
  if (n >= 0)
    errno = ENOSPC;
  return failed(path);  // what was written lies behind the counted end and is overwritten by the next attempt
}

// Nothing when there is no journal yet. A link, a FIFO or a device under its name is no journal and is left alone.
Result<std::string> read_all(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return errno == ENOENT ? Result<std::string>(std::string()) : failed(path);
  struct stat found {};
  std::string bytes;
  ssize_t n = ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode) ? 0 : -1;
  if (n == 0)
    bytes.resize(static_cast<std::size_t>(found.st_size));
  for (std::size_t at = 0; n >= 0 && at < bytes.size(); at += static_cast<std::size_t>(n))
    if ((n = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at))) == 0)
      bytes.resize(at);
  ::close(fd);
  if (n < 0)
    return Error{Errc::kIo, path + " is in the way and is not a journal that can be read", {}};
  return bytes;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text.append(line).push_back('\n');
  return text;
}

}  // namespace

JournalFile::JournalFile(JournalFile&& other) noexcept
    : path_(std::move(other.path_)),
      boot_id_(std::move(other.boot_id_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      size_after_replace_(other.size_after_replace_),
      same_boot_(other.same_boot_),
      lines_(std::move(other.lines_)) {}

JournalFile::~JournalFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<JournalFile> JournalFile::open(const std::string& path, const std::string& boot_id) {
  JournalFile journal;
  journal.path_ = path;
  journal.boot_id_ = boot_id;
  const std::string bytes = TRY(read_all(path));
  journal.lines_ = split(bytes, '\n');
  if (!journal.lines_.empty())
    journal.lines_.pop_back();  // "" behind the last newline, or a torn line
  journal.same_boot_ = !journal.lines_.empty() && journal.lines_[0] == "boot " + boot_id;
  if (!journal.same_boot_) {
    journal.lines_.clear();
    TRY(journal.replace({}));
    return journal;
  }
  journal.lines_.erase(journal.lines_.begin());
  journal.fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (journal.fd_ < 0)
    return failed(path);
  journal.size_ = bytes.rfind('\n') + 1;  // a torn line is overwritten
  if (::ftruncate(journal.fd_, static_cast<off_t>(journal.size_)) != 0)
    return failed(path);
  return journal;
}

Result<void> JournalFile::append(const std::vector<std::string>& lines) {
  const std::string text = text_of(lines);
  TRY(write_all(fd_, text, size_, path_));
  size_ += text.size();
  return {};
}

Result<void> JournalFile::replace(const std::vector<std::string>& lines) {
  const std::string fresh = path_ + ".new";
  const std::string text = format("boot {}\n", boot_id_) + text_of(lines);
  ::unlink(fresh.c_str());  // of one that was interrupted
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    return failed(fresh);
  auto written = write_all(fd, text, 0, fresh);
  if (written.ok() && ::rename(fresh.c_str(), path_.c_str()) != 0)
    written = failed(fresh);
  if (!written.ok()) {
    ::close(fd);
    return written;
  }
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = fd;
  size_ = size_after_replace_ = text.size();
  return {};
}

}  // namespace lockstep
