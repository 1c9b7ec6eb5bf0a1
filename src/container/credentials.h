// What a user shows a registry: ~/.config/enroot/.credentials, as enroot reads it (lines of netrc(5)), beside Docker's
// file, which skopeo reads itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

struct Credentials {
  std::string login, password;
  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// Of the first machine of that name, and, where a login is asked for, with that one. variable: the environment's
// value of a name, for passwords that are written $NAME or ${NAME}.
std::optional<Credentials> find_credentials(std::string_view netrc, std::string_view machine, std::string_view login,
                                            const char* (*variable)(const char*));

// Whether a login for these images is one for this image. image: registry and path, without tag. images: "ghcr.io",
// "https://index.docker.io/v1/", "quay.io/team", "*.example.com"; a registry with a port is another one.
// Source: kubernetes.io/docs/concepts/containers/images ("Interpretation of config.json").
bool login_is_for(std::string_view images, std::string_view image);

// Docker's file for one registry.
std::string docker_auth_file(std::string_view registry, const Credentials& credentials);

std::string base64(std::string_view bytes);

}  // namespace lockstep
