#include "frontends/slurm/client/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep::slurm {

namespace {

constexpr std::size_t kKeptMax = 1 << 20;

// Never waits, neither here (a pipe without a reader, a line without a carrier) nor in a write.
int try_open(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
}

bool is_kind(const std::string& path, ::mode_t kind) {
  struct ::stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && (facts.st_mode & S_IFMT) == kind;
}

Error cannot_open(const std::string& path, int why) {
  const bool is_socket = why == ENXIO && is_kind(path, S_IFSOCK);
  return {Errc::kIo,
          format("Could not open stdout file {}: {}", path,
                 is_socket ? "it is a socket: name a file, a pipe or a terminal" : ::strerror(why)),
          {}};
}

}  // namespace

Result<std::shared_ptr<OutputFile>> OutputFile::open(const std::string& path) {
  auto file = std::make_shared<OutputFile>(try_open(path), path);
  file->ours_ = true;
  if (file->fd_ >= 0)
    return file;
  const int why = errno;
  if (why != ENXIO || !is_kind(path, S_IFIFO))
    return cannot_open(path, why);
  file->path_ = path;
  return file;
}

Result<void> OutputFile::check_folder(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) == 0 || ::access(path.c_str(), W_OK) == 0)
    return {};
  return cannot_open(path, errno);
}

OutputFile::~OutputFile() {
  if (ours_ && fd_ >= 0)
    ::close(fd_);
}

Result<void> OutputFile::begin(bool append) {
  struct ::stat facts {};
  if (!ours_ || fd_ < 0 || ::fstat(fd_, &facts) != 0 || !S_ISREG(facts.st_mode))
    return {};
  if (append ? ::fcntl(fd_, F_SETFL, O_APPEND) != 0 : ::ftruncate(fd_, 0) != 0)
    return cannot_open(name_, errno);
  return {};
}

bool OutputFile::waits_for_reader() {
  if (path_.empty())
    return false;
  fd_ = try_open(path_);
  if (fd_ < 0 && errno == ENXIO)
    return true;
  if (fd_ < 0)
    failed_ = errno;  // the pipe was removed, or is closed to us now
  path_.clear();
  return false;
}

bool OutputFile::keep(std::string_view text) {
  if (kept_.size() + text.size() > kKeptMax)
    return false;
  kept_ += text;
  return true;
}

}  // namespace lockstep::slurm
