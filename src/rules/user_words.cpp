#include "rules/user_words.h"

#include "base/text.h"
#include "model/records.h"

namespace lockstep {

std::string user_words(const Directory& directory, UserId id) {
  const User* user = directory.user(id);
  if (!user)
    return "whom this cluster has no record of";
  const std::string uid = format("{}", user->uid);
  return user->meta.name.empty() || user->meta.name == "uid" + uid ? "uid " + uid : user->meta.name;
}

}  // namespace lockstep
