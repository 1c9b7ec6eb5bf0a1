// A descriptor that closes itself, and files below a folder that somebody else has filled.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

class OpenFile {
 public:
  explicit OpenFile(int fd = -1) : fd_(fd) {}
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OpenFile() { close(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0)
      ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// The path as a program inside would find it whose root the folder is: links, also absolute ones, and ".." never lead
// out of it. flags: of open(2).
OpenFile open_in_root(int root, const std::string& path, int flags, unsigned mode = 0);
// A regular file, whole; "" where there is none, or where it is longer than `most` bytes.
std::string read_in_root(int root, const std::string& path, std::size_t most);

// What a mount needs to lie on, made as far as it is not there: folders on the way, and a folder or an empty file.
// dangling: what becomes of a link on the way that leads to nothing.
enum class Target : unsigned char { kFolder, kFile };
enum class Dangling : unsigned char { kRefused, kReplaced };
Result<OpenFile> make_in_root(int root, const std::string& path, Target kind, Dangling dangling = Dangling::kRefused);
// A folder by this very path, nothing followed on the way: whatever else stands there is removed. True: there was
// something else.
Result<bool> settle_folder_in_root(int root, const std::string& path);
// Where it lies below that folder, without links; "" = not below it.
std::string path_in_root(const OpenFile& file, int root);

Result<void> make_folders(const std::string& path);  // as mkdir -p, mode 0700
// Everything below and itself, also where its modes forbid it; links are not followed. Nothing there is no error.
Result<void> remove_tree(const std::string& path);
std::vector<std::string> names_in(const std::string& folder);  // of what lies there, but "." and ".."
Result<void> write_file(const std::string& path, std::string_view text, unsigned mode = 0600);

}  // namespace lockstep
