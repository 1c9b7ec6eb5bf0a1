// Identity: from what the transport proves about a caller to a user of the cluster, and how far that user's word goes.
// A node is believed only as far as it must be: see docs/security.md, "Machines and certificates".
#pragma once

#include <cstdint>
#include <string>

#include "controller/live_view.h"
#include "model/command.h"
#include "ports/http.h"

namespace lockstep {

// The role of certificates that name users ("user:ann"): whoever holds one is that user, from wherever he calls.
inline constexpr const char* kUserRole = "client";

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
  // Root of a compute node that has no other right to it: what it may still say of the node itself (Api::own_word).
  NodeId root_of;
};

// own_uid: of the controller's process: its user rules the cluster, as root of the controller's machine does.
Who identify(const Peer& peer, const LiveView& view, std::uint32_t own_uid, Instant now);

}  // namespace lockstep
