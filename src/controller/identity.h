// Identity: from what the transport proves about a caller to a user of the cluster. The machine's own user database is
// asked at a local user's first call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/live_view.h"
#include "model/command.h"
#include "ports/http.h"

namespace lockstep {

struct Who {
  enum class Kind : unsigned char {
    kUser,     // caller is complete
    kNewUser,  // `user` must be put first
    kAgent,    // a node's own certificate: links only
    kNobody,   // no proof at all
    kRefused,  // proof of somebody who may not speak here; see why
  } kind = Kind::kNobody;
  Caller caller;
  const User* known = nullptr;
  User user;        // kNewUser
  std::string why;  // kRefused
};

// own_uid: of the controller's process, which rules its own socket, as root does.
Who identify(const Peer& peer, const LiveView& view, std::uint32_t own_uid);

// The machine's record of a uid; a made-up one when it has none.
User local_user(std::uint32_t uid, std::uint32_t gid);
// Whether the cluster's record still says what the machine says.
bool same_account(const User& a, const User& b);

}  // namespace lockstep
