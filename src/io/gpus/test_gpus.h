// The stand-in library of this build with a driving file of the test's own.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace lockstep {

class TestGpus {
 public:
  explicit TestGpus(const std::string& text) {
    char path[] = "/tmp/lockstep-gpus-XXXXXX";
    folder_ = mkdtemp(path);
    write(text);
    setenv("LOCKSTEP_STANDIN_NVML", file().c_str(), 1);
  }
  ~TestGpus() {
    for (const char* name : {"/gpus", "/gpus.lock", "/gpus.new"}) unlink((folder_ + name).c_str());
    rmdir(folder_.c_str());
    unsetenv("LOCKSTEP_STANDIN_NVML");
  }
  TestGpus(const TestGpus&) = delete;
  TestGpus& operator=(const TestGpus&) = delete;

  std::string file() const { return folder_ + "/gpus"; }
  std::string text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const {
    std::ofstream(file() + ".new") << text;
    rename((file() + ".new").c_str(), file().c_str());
  }
  void add(const std::string& line) const { write(text() + line + "\n"); }

  // Beside this program: bin/../lib.
  static std::string library() {
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
    const std::string path(self, static_cast<std::size_t>(n));
    return path.substr(0, path.rfind('/')) + "/../lib/libnvidia-ml.so.1";
  }

 private:
  std::string folder_;
};

}  // namespace lockstep
