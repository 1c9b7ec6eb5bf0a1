#include "container/image_user.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kGroupsMax = 256;

std::optional<std::uint32_t> id_of(std::string_view text) {
  const auto number = parse_uint(text);
  return number && *number < UINT32_MAX ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

struct Line {
  std::vector<std::string> fields;
  const std::string& at(std::size_t i) const {
    static const std::string kNone;
    return i < fields.size() ? fields[i] : kNone;
  }
};

std::optional<Line> find_line(std::string_view text, std::string_view name, std::optional<std::uint32_t> id) {
  for (const std::string& line : split(text, '\n')) {
    Line one{split(line, ':')};
    if (one.fields.size() >= 3 && (id ? id_of(one.at(2)) == id : one.at(0) == name))
      return one;
  }
  return std::nullopt;
}

}  // namespace

Result<ImageUser> find_image_user(std::string_view name, std::optional<std::uint32_t> uid, std::string_view passwd,
                                  std::string_view group) {
  const std::size_t colon = name.find(':');
  std::string_view user = name.substr(0, colon);
  const std::string_view of_group = colon == name.npos ? std::string_view() : name.substr(colon + 1);
  if (user.empty())
    user = "0";
  const auto number = uid ? uid : id_of(user);
  const auto line = find_line(passwd, user, number);
  if (!line && !number)
    return not_found(format("the image has no user {}", user));
  ImageUser out;
  out.uid = number ? *number : id_of(line->at(2)).value_or(0);
  if (line) {
    out.gid = id_of(line->at(3)).value_or(0);
    if (line->at(5).starts_with('/'))
      out.home = line->at(5);
    for (const std::string& text : split(group, '\n')) {
      const Line one{split(text, ':')};
      const auto members = split(one.at(3), ',');
      const auto id = id_of(one.at(2));
      if (id && *id != out.gid && out.groups.size() < kGroupsMax &&
          std::find(members.begin(), members.end(), line->at(0)) != members.end())
        out.groups.push_back(*id);
    }
  }
  if (of_group.empty() || uid)
    return out;
  out.groups.clear();
  if (const auto id = id_of(of_group)) {
    out.gid = *id;
  } else if (const auto named = find_line(group, of_group, std::nullopt)) {
    out.gid = id_of(named->at(2)).value_or(0);
  } else {
    return not_found(format("the image has no group {}", of_group));
  }
  return out;
}

}  // namespace lockstep
