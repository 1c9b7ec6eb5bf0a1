// The user database of a job whose user the node does not know: the node's own, and behind it what is missing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shim/job_place.h"

namespace lockstep {

// What a database says of names and numbers; `known` answers for a name or a number of `database`, "passwd" or "group".
class NameSource {
 public:
  virtual ~NameSource() = default;
  virtual bool knows(const char* database, const std::string& key) const = 0;
};

// Asks as programs do: files, directories, whatever nsswitch.conf(5) names; by getent(1), a few seconds at most. One
// that does not answer counts as one that knows.
class NodeNames final : public NameSource {
 public:
  bool knows(const char* database, const std::string& key) const override;
};

// The line that the node's user database lacks; "" = it lacks none. A name that is another's on this node is not taken:
// sudoers and the like go by names.
std::string missing_passwd_line(const JobPlace& place, const NameSource& names);
// Lines for the groups that have no name here. The user's first one is called as the user is.
std::string missing_group_lines(const JobPlace& place, const NameSource& names);

}  // namespace lockstep
