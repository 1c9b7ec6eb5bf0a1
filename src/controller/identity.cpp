#include "controller/identity.h"

#include "base/text.h"
#include "controller/account_book.h"

namespace lockstep {

namespace {

constexpr std::string_view kLocalRealm = "local";
constexpr std::string_view kNodeNames = "node:";
constexpr std::string_view kUserNames = "user:";  // in the role kUserRole
constexpr std::uint32_t kNobodysGid = 65534;

Who as_user(const User& user, bool admin) {
  Who who;
  who.kind = Who::Kind::kUser;
  who.caller = {user.id, admin};
  who.known = &user;
  return who;
}

Who as_new(User user, bool admin) {
  Who who;
  who.kind = Who::Kind::kNewUser;
  who.user = std::move(user);
  who.caller = {UserId{}, admin};
  return who;
}

Who turned_away(std::string why) {
  Who who;
  who.kind = Who::Kind::kRefused;
  who.why = std::move(why);
  return who;
}

// A compute node runs what others own: it speaks for those whose work it has now, and for nobody else.
Who of_compute_node(const Peer& peer, const Node& node, const LiveView& view, Instant now) {
  const User* user = view.owner_on(node.id, peer.uid, now);
  const bool trusted = node.trust_administrators;
  Who who = user ? as_user(*user, trusted && (user->admin || user->uid == 0))
                 : turned_away(format(
                       "user {} has no job on node {}: from a compute node only the owners of its jobs may speak",
                       peer.uid, node.meta.name));
  if (user && user->uid == 0 && !trusted)
    who.caller.only_on = node.id;
  if (peer.uid == 0 && !who.caller.admin)
    who.root_of = node.id;
  return who;
}

// A broker's machine has users of its own: it is believed who they are, but not that one of them is root.
Who of_broker(const Peer& peer, const Node& node, const LiveView& view) {
  const bool trusted = node.trust_administrators;
  if (peer.uid == 0 && !trusted)
    return turned_away(
        format("root of {} is nobody here; an administrator may change that with `lockstep node update {} "
               "--trust-administrators`",
               node.meta.name, node.meta.name));
  if (const User* user = view.tables().user(peer.realm, peer.uid))
    return as_user(*user, trusted && (user->admin || user->uid == 0));
  // Another machine's user database: an administrator gives the name; until then the number serves.
  User user = made_up_account(peer.uid, peer.gid == 0 || peer.realm == kLocalRealm ? kNobodysGid : peer.gid);
  user.realm = peer.realm;
  if (peer.realm != kLocalRealm)
    user.meta.name = format("{}-uid{}", peer.realm, peer.uid);
  return as_new(std::move(user), false);
}

}  // namespace

Who identify(const Peer& peer, const LiveView& view, std::uint32_t own_uid, Instant now) {
  switch (peer.how) {
    case Peer::How::kNobody: return {};
    case Peer::How::kUnixSocket: {
      const bool admin = peer.uid == 0 || peer.uid == own_uid;
      if (const User* user = view.tables().user(kLocalRealm, peer.uid))
        return as_user(*user, admin || user->admin);
      return as_new(made_up_account(peer.uid, peer.gid), admin);
    }
    case Peer::How::kCertificate: {
      Who who;
      const std::string_view name = peer.certificate_name;
      if (name.starts_with(kNodeNames)) {
        who.kind = Who::Kind::kAgent;
      } else if (name.starts_with(kUserNames) && peer.certificate_role == kUserRole) {
        const User* user = view.tables().user_named(name.substr(kUserNames.size()));
        const bool rules = user && user->realm == kLocalRealm && (user->uid == 0 || user->uid == own_uid);
        return user ? as_user(*user, user->admin || rules)
                    : turned_away(format("the cluster knows no user {} any more", name.substr(kUserNames.size())));
      }
      return who;
    }
    case Peer::How::kForwarded: {
      const std::string_view name = peer.certificate_name;
      const Node* node = view.tables().node(name.substr(std::min(name.size(), kNodeNames.size())));
      if (!node)
        return turned_away(format("{} is not a node of this cluster", name));
      return peer.realm.empty() ? of_compute_node(peer, *node, view, now) : of_broker(peer, *node, view);
    }
  }
  return {};
}

}  // namespace lockstep
