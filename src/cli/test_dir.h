// A directory of a test, gone with it.
#pragma once

#include <stdlib.h>

#include <fstream>
#include <string>

#include "base/check.h"
#include "cli/cluster_dir.h"

namespace lockstep {

class TestDir {
 public:
  TestDir() {
    char name[] = "/tmp/lockstep-cli-XXXXXX";
    CHECK(::mkdtemp(name) != nullptr);
    dir_.root = name;
  }
  ~TestDir() {
    CHECK(dir_.root.starts_with("/tmp/lockstep-cli-"));
    (void)!::system(("rm -rf '" + dir_.root + "'").c_str());
  }
  TestDir(const TestDir&) = delete;

  const ClusterDir& dir() const { return dir_; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(dir_.file(name)) << text; }

 private:
  ClusterDir dir_;
};

}  // namespace lockstep
