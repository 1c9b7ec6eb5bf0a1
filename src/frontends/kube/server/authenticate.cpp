#include "frontends/kube/server/authenticate.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/server/shown_token.h"
#include "frontends/kube/server/target.h"

namespace lockstep::kube {

namespace {

KubeUser of_record(const User& user, bool admin) {
  KubeUser out;
  out.name = user.meta.name;
  out.uid = std::to_string(user.uid);
  if (admin)
    out.groups.emplace_back(kMasters);
  out.groups.emplace_back(kAuthenticated);
  return out;
}

// Whose request for a certificate was approved (controllers/certificates.cpp).
KubeUser of_guest(const Peer& peer) {
  KubeUser out;
  out.name = peer.certificate_name.substr(std::string_view(kGuestRole).size() + 1);
  out.groups = peer.certificate_groups;
  out.groups.emplace_back(kAuthenticated);
  return out;
}

std::string of_whom(const KubeUser& user, const Attempt& attempt) {
  return format("User \"{}\" cannot {}", user.name, attempt.verb);
}

// Account names bring the groups that accounts are in.
std::vector<std::string> groups_of_account(std::string_view name) {
  const std::string_view rest = name.substr(kAccountUser.size());
  const std::string ns(rest.substr(0, rest.find(':')));
  return {std::string(kAccountGroup), format("{}:{}", kAccountGroup, ns)};
}

constexpr std::string_view kUserHeader = "impersonate-user", kGroupHeader = "impersonate-group",
                           kUidHeader = "impersonate-uid", kExtraHeader = "impersonate-extra-";

// Of a header that comes several times.
std::vector<std::string> header_values(std::string_view header) {
  std::vector<std::string> out;
  for (const std::string& one : split(header, ',')) out.emplace_back(trim(one));
  return out;
}

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

// "example.com%2fproject", as a header's name has it, which is in lower case. What is badly written stays as it is.
std::string extra_key(std::string_view written) {
  std::string out;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] != '%') {
      out += written[i];
      continue;
    }
    const int high = i + 2 < written.size() ? hex_digit(written[i + 1]) : -1;
    const int low = i + 2 < written.size() ? hex_digit(written[i + 2]) : -1;
    if (high < 0 || low < 0)
      return std::string(written);
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return out;
}

// Source: k8s.io/apiserver pkg/endpoints/filters/impersonation.
Answered<KubeUser> impersonated(const HttpRequest& http, KubeUser user, const RoleBook& roles) {
  const std::string name = header_of(http, kUserHeader), uid = header_of(http, kUidHeader);
  std::vector<std::string> groups = header_values(header_of(http, kGroupHeader));
  std::map<std::string, std::vector<std::string>> extra;
  for (auto at = http.headers.lower_bound(kExtraHeader); at != http.headers.end(); ++at) {
    if (!at->first.starts_with(kExtraHeader))
      break;
    extra[extra_key(std::string_view(at->first).substr(kExtraHeader.size()))] = header_values(at->second);
  }
  if (name.empty()) {
    if (!groups.empty() || !uid.empty() || !extra.empty())
      return Status::internal("requested impersonation without impersonating a user");
    return user;
  }
  const auto judge = [&](const Attempt& attempt) -> std::optional<Status> {
    return roles.allows(user, attempt) ? std::nullopt : std::optional(refused(user, attempt));
  };
  const auto check = [&](const std::string& resource, const std::string& what, const std::string& ns) {
    return judge({"impersonate", "", "v1", resource, "", ns, what, ""});
  };
  KubeUser out;
  out.name = name;
  if (name.starts_with(kAccountUser)) {
    const std::vector<std::string> parts = split(name, ':');
    if (parts.size() != 4)
      return Status::bad_request("the service account's name is no system:serviceaccount:NAMESPACE:NAME");
    if (const auto no = check("serviceaccounts", parts[3], parts[2]))
      return *no;
    if (groups.empty())
      groups = groups_of_account(name);
  } else if (const auto no = check("users", name, "")) {
    return *no;
  }
  for (const std::string& group : groups)
    if (const auto no = check("groups", group, ""))
      return *no;
  out.groups = std::move(groups);
  constexpr const char* kProofs = "authentication.k8s.io";
  if (!uid.empty())
    if (const auto no = judge({"impersonate", kProofs, "v1", "uids", "", "", uid, ""}))
      return *no;
  out.uid = uid;
  for (const auto& [key, values] : extra)
    for (const std::string& value : values)
      if (const auto no = judge({"impersonate", kProofs, "v1", "userextras", key, "", value, ""}))
        return *no;
  out.extra = std::move(extra);
  const bool anonymous = name == kAnonymous;
  const std::string_view last = anonymous ? kUnauthenticated : kAuthenticated;
  if (std::find(out.groups.begin(), out.groups.end(), last) == out.groups.end())
    out.groups.emplace_back(last);
  return out;
}

}  // namespace

Answered<KubeUser> authenticate(const FrontVisit& visit, const RoleBook& roles, const TokenPowers& tokens) {
  const HttpRequest& http = visit.request();
  const auto read = visit.read();
  KubeUser user{std::string(kAnonymous), "", {std::string(kUnauthenticated)}, {}};
  const auto shown = shown_token(http);
  if (!shown.ok())
    return Status::unauthorized();
  if (!shown->empty()) {  // says more than the connection, which may be shared
    const std::int64_t now_s = (read->now + read->wall_offset).us / 1'000'000;
    auto holder = holder_of(tokens, read->tables, *shown, now_s);
    if (!holder || std::ranges::find(holder->audiences, kIssuer) == holder->audiences.end())
      return Status::unauthorized();
    user = std::move(holder->user);
  } else if (read->caller && (http.peer.how != Peer::How::kForwarded || read->admin)) {
    // Whoever a node vouches for is whoever root of that node says: roles are not lent on its word.
    user = of_record(*read->caller, read->admin);
  } else if (http.peer.how == Peer::How::kCertificate && http.peer.certificate_role == kGuestRole) {
    user = of_guest(http.peer);
  } else if (!header_of(http, "authorization").empty()) {
    return Status::unauthorized();
  }
  return impersonated(http, std::move(user), roles);
}

Status refused(const KubeUser& user, const Attempt& attempt) {
  if (!attempt.is_resource())
    return Status::forbidden({}, "", format("{} path \"{}\"", of_whom(user, attempt), attempt.path));
  const std::string resource =
      attempt.subresource.empty() ? attempt.resource : attempt.resource + "/" + attempt.subresource;
  return Status::forbidden(
      {attempt.group, attempt.resource}, attempt.name,
      format("{} resource \"{}\" in API group \"{}\" {}", of_whom(user, attempt), resource, attempt.group,
             attempt.ns.empty() ? "at the cluster scope" : format("in the namespace \"{}\"", attempt.ns)));
}

}  // namespace lockstep::kube
