// What an image says of how it is run, from an OCI image configuration, from the files that enroot leaves in a squashfs
// image, or from an OCI bundle's config.json (Open Container Initiative, image and runtime specification 1.0).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/program.h"

namespace lockstep {

struct ImageConfig {
  std::vector<std::string> env;         // NAME=value
  std::vector<std::string> entrypoint;  // before the words of the program
  std::vector<std::string> command;     // the program, where the user names none
  std::string work_dir = "/";
  std::string user = {};         // "" = root; "1000:100", "nobody"
  std::int32_t stop_signal = 0;  // by which it wants to be ended; 0 = it does not say
  friend bool operator==(const ImageConfig&, const ImageConfig&) = default;
};

Result<ImageConfig> parse_image_config(std::string_view json);
// "SIGQUIT", "QUIT", "3", "SIGRTMIN+3"; 0 = there is none of that name.
std::int32_t signal_named(std::string_view word);
// environment: /etc/environment; rc: /etc/rc, which changes to the working directory and runs the entrypoint.
ImageConfig parse_enroot_config(std::string_view environment, std::string_view rc);
// What parse_enroot_config reads, for an image that is saved.
std::string enroot_environment(const ImageConfig& config);
std::string enroot_rc(const ImageConfig& config);

struct Bundle {
  ImageConfig config;
  std::string root;  // as it stands there: relative to the bundle, or absolute
  bool read_only = false;
  std::vector<Mount> mounts;  // binds alone: what every container has is not listed
};
Result<Bundle> parse_bundle(std::string_view json);

}  // namespace lockstep
