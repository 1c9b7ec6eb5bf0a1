// A directory of a test's own, removed with everything in it.
#pragma once

#include <ftw.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace lockstep {

class TempDir {
 public:
  TempDir() {
    const char* base = std::getenv("TMPDIR");
    std::string pattern = std::string(base != nullptr ? base : "/tmp") + "/lockstep-XXXXXX";
    path_ = ::mkdtemp(pattern.data()) != nullptr ? pattern : "";
  }
  TempDir(const TempDir&) = delete;
  ~TempDir() {
    const auto remove_one = [](const char* path, const struct stat*, int, FTW*) { return std::remove(path); };
    if (!path_.empty())
      ::nftw(path_.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS);
  }
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace lockstep
