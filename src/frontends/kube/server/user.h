// Who asks, as Kubernetes calls them, and what they want to do.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

struct KubeUser {
  std::string name, uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
};

inline constexpr std::string_view kMasters = "system:masters";  // may do everything
inline constexpr std::string_view kAuthenticated = "system:authenticated";
inline constexpr std::string_view kUnauthenticated = "system:unauthenticated";
inline constexpr std::string_view kAnonymous = "system:anonymous";
inline constexpr std::string_view kAccountUser = "system:serviceaccount:";   // NAMESPACE:NAME behind it
inline constexpr std::string_view kAccountGroup = "system:serviceaccounts";  // and :NAMESPACE

// What authorization is asked about.
struct Attempt {
  std::string verb;
  std::string group, version, resource, subresource, ns, name;
  std::string path;  // of what is no resource: "/healthz"
  bool is_resource() const { return path.empty(); }
};

}  // namespace lockstep::kube
