#include "controller/identity.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::string_view kLocalRealm = "local";

// Whose work runs on the node: nobody else may speak from a compute node.
const User* owner_there(const LiveView& view, std::string_view certificate_name, std::uint32_t uid) {
  constexpr std::string_view kPrefix = "node:";
  if (!certificate_name.starts_with(kPrefix))
    return nullptr;
  const Node* node = view.tables().node(certificate_name.substr(kPrefix.size()));
  return node ? view.owner_on(node->id, uid) : nullptr;
}

Who as_user(const User& user, bool admin) {
  Who who;
  who.kind = Who::Kind::kUser;
  who.caller = {user.id, admin};
  who.known = &user;
  return who;
}

Who refused(std::string why) {
  Who who;
  who.kind = Who::Kind::kRefused;
  who.why = std::move(why);
  return who;
}

}  // namespace

User local_user(std::uint32_t uid, std::uint32_t gid) {
  User user;
  user.realm = kLocalRealm;
  user.uid = uid;
  user.gid = gid;
  user.meta.name = format("uid{}", uid);
  user.home = "/";
  user.shell = "/bin/sh";
  std::vector<char> buffer(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found) {
    user.meta.name = found->pw_name;
    user.gid = found->pw_gid;
    user.home = found->pw_dir;
    if (found->pw_shell && *found->pw_shell)
      user.shell = found->pw_shell;
  }
  std::vector<gid_t> groups(64);
  int count = static_cast<int>(groups.size());
  while (getgrouplist(user.meta.name.c_str(), user.gid, groups.data(), &count) < 0) {
    if (count <= static_cast<int>(groups.size()))
      break;
    groups.resize(static_cast<std::size_t>(count));
  }
  groups.resize(static_cast<std::size_t>(std::max(0, std::min<int>(count, static_cast<int>(groups.size())))));
  user.groups.assign(groups.begin(), groups.end());
  std::sort(user.groups.begin(), user.groups.end());
  return user;
}

bool same_account(const User& a, const User& b) {
  return a.meta.name == b.meta.name && a.gid == b.gid && a.groups == b.groups && a.home == b.home && a.shell == b.shell;
}

Who identify(const Peer& peer, const LiveView& view, std::uint32_t own_uid) {
  const Tables& tables = view.tables();
  switch (peer.how) {
    case Peer::How::kNobody: return {};
    case Peer::How::kUnixSocket: {
      const bool admin = peer.uid == 0 || peer.uid == own_uid;
      if (const User* user = tables.user(kLocalRealm, peer.uid))
        return as_user(*user, admin || user->admin);
      Who who;
      who.kind = Who::Kind::kNewUser;
      who.user = local_user(peer.uid, peer.gid);
      who.caller = {UserId{}, admin};
      return who;
    }
    case Peer::How::kCertificate: {
      Who who;
      if (peer.certificate_role == "admin") {
        who.kind = Who::Kind::kUser;
        who.caller = {UserId{}, true};
      } else if (peer.certificate_name.starts_with("node:")) {
        who.kind = Who::Kind::kAgent;
      }
      return who;
    }
    case Peer::How::kForwarded: {
      if (peer.realm.empty()) {
        if (const User* user = owner_there(view, peer.certificate_name, peer.uid))
          return as_user(*user, user->admin && peer.uid != 0);
        return refused(format("user {} has no job on {}: from a compute node only the owners of its jobs may speak",
                              peer.uid, peer.certificate_name));
      }
      if (const User* user = tables.user(peer.realm, peer.uid))
        return as_user(*user, user->admin && peer.uid != 0);
      Who who;
      who.kind = Who::Kind::kNewUser;
      if (peer.realm == kLocalRealm) {
        who.user = local_user(peer.uid, peer.gid);
      } else {
        // Another machine's user database: an administrator gives the name; until then the number serves.
        who.user.realm = peer.realm;
        who.user.uid = peer.uid;
        who.user.gid = peer.gid;
        who.user.groups = {peer.gid};
        who.user.meta.name = format("{}-uid{}", peer.realm, peer.uid);
        who.user.home = "/";
        who.user.shell = "/bin/sh";
      }
      return who;
    }
  }
  return {};
}

}  // namespace lockstep
