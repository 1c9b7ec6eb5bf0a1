// Routes: what the API answers, one row for each method and path: who may ask, how long a body may be, and what kind of
// work it makes. The dispatcher enforces a row before its handler runs; the bounds of bodies, the table of rights in
// docs/security.md and the test that walks it are read from the same rows.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ports/http.h"
#include "views/read_context.h"

namespace lockstep {

class Api;
struct Visit;

// Who may ask. Each includes those below it, a node apart.
enum class Right : unsigned char {
  kNobody,         // no proof is needed
  kNode,           // the certificate of a node that has joined
  kUser,           // any user of the cluster
  kOwner,          // the owner of the job that the path names, or an administrator
  kAdministrator,  // of the cluster
};

// What a request costs, in units that the rate of its caller is counted in.
enum class Cost : unsigned char {
  kRead,      // a record or a sum
  kList,      // rows that grow with the cluster; written in slices
  kChange,    // a command for the core
  kEnd,       // the same; it ends something, and is taken from users also where the disk is nearly full
  kQuestion,  // a copy of the cluster plans for it, or history is searched
  kWait,      // held open until something happens
};

struct Route {
  using Handler = void (Api::*)(Visit);
  std::string_view method, path;  // "/v1/jobs/*/cancel"
  Handler handler;                // null: a front end's page
  Right right;
  Cost cost;
  std::size_t body_bytes_max;
  // The names that may stand behind the "?", and what their values are: "id,user,presence=flag"
  // (controller/query_values.h).
  std::string_view query = {};
};
// Refuses a name that the row does not know, or the page of a front end, and a value that cannot be meant.
Result<void> check_query(const Route& route, const HttpRequest& request);
Result<void> check_query(const PageEntry& page, const HttpRequest& request);

// A row that answers this method and path; null: there is none. `names`: what stands under the stars. same_path: a row
// has this path, for another method.
const Route* find_route(std::string_view method, std::string_view path, std::vector<std::string>& names,
                        bool* same_path = nullptr);
// The row of every page of a front end; PageEntry has the rest.
const Route& page_route();

// For HttpLimits: how long a body this request may have, before it is read. Paths that are not answered get little.
std::size_t body_bound(const HttpRequest& head);

// Whether a caller of this kind passes a row; rows of an owner pass the owner.
enum class CallerKind : unsigned char {
  kNobody,
  kNode,
  kForwardedRoot,
  kOtherUser,
  kForwardedUser,
  kCoordinator,
  kOwner,
  kAdministrator,
};
inline constexpr std::size_t kCallerKinds = 8;
bool passes(Right right, CallerKind caller);
std::string_view text_of(CallerKind caller);
std::string_view text_of(Right right);

std::span<const Route> route_rows();
// The section of docs/security.md, as Markdown: a line for each row, a column for each kind of caller.
std::string rights_table(std::span<const PageEntry> pages);

}  // namespace lockstep
