// A directory of ours on a machine that others use too, held open so that nobody can put another one in its place
// between a check and its use. Nothing here follows a symbolic link that somebody else could have made.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

class Folder {
 public:
  // Walks to an absolute path, one component at a time. Every directory on the way must belong to root or to us, and
  // nobody else may write to it, unless it is sticky as /tmp is; the last one must be ours and no symbolic link.
  // kDenied names the component that is not so; kNotFound where something is missing.
  static Result<Folder> open(const std::string& path);
  // The same, and makes what is missing: the last one with `mode`, those before it with 0755, whatever the umask.
  // made: whether the last one was missing.
  static Result<Folder> make(const std::string& path, unsigned mode, bool* made = nullptr);

  // Takes over a descriptor that was opened in a folder of ours.
  static Folder held(std::string path, int fd) { return Folder(std::move(path), fd); }

  Folder(Folder&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  const std::string& path() const { return path_; }
  std::string real_path() const;  // as the kernel calls it: no links on the way
  int fd() const { return fd_; }

  // A folder inside, made if it is missing; it has exactly this mode afterwards. kDenied unless it is ours.
  Result<Folder> folder(const std::string& name, unsigned mode) const;
  // One that is there, whoever it belongs to: to look, not to trust. No link is followed.
  Result<Folder> existing(const std::string& name) const;
  Result<std::vector<std::string>> names() const;  // sorted, without . and ..
  // A regular file of ours, at most 1 MiB of it. kDenied for anything else under that name; a FIFO is never waited for.
  Result<std::string> read(const std::string& name) const;
  // Replaces the file atomically, whatever was there before under that name; nothing is followed or overwritten.
  Result<void> write(const std::string& name, std::string_view text, unsigned mode) const;
  // The same, and it is there also after the machine has lost its power.
  Result<void> write_durably(const std::string& name, std::string_view text, unsigned mode) const;
  // As write(), unless it holds this text already: a full disk refuses no file that need not change.
  Result<void> keep(const std::string& name, std::string_view text, unsigned mode) const;

 private:
  friend class PathWalk;
  Result<void> replace(const std::string& name, std::string_view text, unsigned mode, bool durably) const;
  Folder(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

// Whether its file system is one that a restart of the machine empties.
bool in_memory(const Folder& folder);

// "a//./b/" -> "/where/we/are/a/b".
std::string absolute_path(const std::string& path);

}  // namespace lockstep
