// What a user names as an image, as pyxis takes it: [USER@][REGISTRY#]IMAGE[:TAG] or …@sha256:… (also
// …:sha256:…), docker://…, a path of a file (squashfs, docker or OCI archive), oci:DIR[:TAG], oci-archive:FILE,
// docker-archive:FILE.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

struct ImageReference {
  enum class Source : unsigned char { kRegistry, kLayout, kArchive, kFile } source = Source::kRegistry;
  std::string transport;   // as skopeo names it; "" for kFile, whose content tells
  std::string path;        // kFile, kArchive, kLayout
  std::string registry;    // kRegistry: host, and port if there is one
  std::string repository;  // kRegistry: behind the registry, without tag
  std::string user;        // kRegistry: whose credentials are to be used; "" = those there are
  std::string digest;      // kRegistry: "sha256:…" where the name says it, so that nobody needs to be asked
  // kRegistry, not of the name: shown instead of what the user has for the registry; and whether it is asked even where
  // the name has the digest, because it is to say who may have the image.
  std::string login, password;
  bool asks_always = false;
};

Result<ImageReference> parse_image(std::string_view text);

// A registry on this machine is spoken to without TLS, as Docker does.
bool is_loopback_registry(std::string_view registry);

}  // namespace lockstep
