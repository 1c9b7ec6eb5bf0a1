// Who runs in a container of root's, by an image's own files of users and groups: passwd(5), group(5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct ImageUser {
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;  // further ones, by the image's /etc/group
  std::string home = "/";
  friend bool operator==(const ImageUser&, const ImageUser&) = default;
};

// name: "USER[:GROUP]", each by name or number; "" = root. uid: takes the user's place, with the groups that the image
// has for it. An Error names who is not there.
Result<ImageUser> find_image_user(std::string_view name, std::optional<std::uint32_t> uid, std::string_view passwd,
                                  std::string_view group);

}  // namespace lockstep
