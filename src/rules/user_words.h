// How messages name a user: by what people know, never by the number of our record.
#pragma once

#include <string>

#include "model/directory.h"

namespace lockstep {

// "ann"; "uid 1007" for one whom no user database names, or whose record is gone.
std::string user_words(const Directory& directory, UserId id);

}  // namespace lockstep
