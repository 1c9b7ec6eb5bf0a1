// Routes: what a controller's port answers: the API's own rows, those of its records, and those that front ends mount,
// with who passes each.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "routes/front_end.h"

namespace lockstep {

class Api;
struct Visit;

// A row of the API's own.
struct ApiRoute {
  using Handler = void (Api::*)(Visit);
  Route route;
  Handler handler = nullptr;
};

class Routes {
 public:
  explicit Routes(std::vector<FrontRoute> mounted = {});
  Routes(Routes&&) = delete;  // rows point into it

  // One of own and front is set where a row answers; same_path: none does, but one of this path answers another method.
  struct Found {
    const Route* route = nullptr;
    const ApiRoute* own = nullptr;
    const FrontRoute* front = nullptr;
    bool same_path = false;
  };
  // names: what stands under the stars. The first row that covers the path answers, so fixed words stand before stars.
  Found find(std::string_view method, std::string_view path, std::vector<std::string>& names) const;

  // For HttpLimits: how long a body this request may have, before it is read. Paths that are not answered get little.
  // proven: the head itself says who calls, though the connection does not (HttpLimits::proven_user).
  std::size_t body_bound(const HttpRequest& head, bool proven = false) const;
  // The section of docs/security.md, as Markdown: a line for each row, a column for each kind of caller.
  std::string rights_table() const;
  std::span<const Route* const> rows() const { return rows_; }

 private:
  std::vector<FrontRoute> mounted_;
  std::vector<const Route*> rows_;  // the API's own, then the mounted ones, each in their order
};

// Whether a caller of this kind passes a row; rows of an owner pass the owner.
enum class CallerKind : unsigned char {
  kNobody,
  kNode,
  kForwardedRoot,
  kOtherUser,
  kForwardedUser,
  kRootAtWork,  // root of a node, of whose jobs one is there
  kCoordinator,
  kOwner,
  kAdministrator,
};
inline constexpr std::size_t kCallerKinds = 9;
bool passes(const Route& row, CallerKind caller);
std::string_view text_of(CallerKind caller);
std::string_view text_of(Right right);
std::string_view text_of(Reach reach);

}  // namespace lockstep
