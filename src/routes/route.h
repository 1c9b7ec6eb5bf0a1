// Route: one row of what the controller's port answers: method and path, who may ask, what kind of work it makes, how
// long a body may be. The dispatcher enforces a row before its handler runs; the bounds of bodies, the table of rights
// in docs/security.md and the tests that walk them are read from the same rows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/http.h"

namespace lockstep {

// Who may ask. Each includes those below it, a node apart.
enum class Right : unsigned char {
  kNobody,         // no proof is needed
  kJudged,         // whoever it is: the front end that mounts the row knows more proofs, and judges
  kNode,           // the certificate of a node that has joined
  kUser,           // any user of the cluster
  kOwner,          // the owner of the job that the path names, or an administrator
  kAdministrator,  // of the cluster
};

// What a request costs, in units that the rate of its caller is counted in.
enum class Cost : unsigned char {
  kRead,      // a record or a sum
  kList,      // rows that grow with the cluster; written in slices, or beside the I/O thread
  kChange,    // a command for the core
  kEnd,       // the same; it ends something, and is taken from users also where the disk is nearly full
  kQuestion,  // a copy of the cluster plans for it, or history is searched
  kWait,      // held open until something happens
};

// Which work a request reaches. Root of a compute node reaches what is on that node only: a cluster does not trust its
// nodes more than it must.
enum class Reach : unsigned char {
  kNothing,  // neither names work nor shows any
  kShown,    // shows work, each piece as its caller may see it (views/visibility.h)
  kEach,     // its body names work: each piece is judged by itself, by the core or by who answers
  kJob,      // the job that the path names: acts on it, enters it, or reads what is private of it
  kStep,     // the same of a step
  kNewJob,   // starts one: root of a node does not at all
};

// How long a body may be, in bytes.
inline constexpr std::size_t kNoBody = 4 << 10;       // it says nothing
inline constexpr std::size_t kTokenBody = 16 << 10;   // of strangers
inline constexpr std::size_t kRecordBody = 4 << 20;   // one record
inline constexpr std::size_t kLaunchBody = 24 << 20;  // a record, its script and environments, quoted
inline constexpr std::size_t kManyBody = 64 << 20;    // submissions or records in one request

struct Route {
  // A star stands for one part of the path, two at its end for all the rest: "/v1/jobs/*/cancel", "/apis/**".
  std::string_view method, path;
  Right right = Right::kUser;
  Cost cost = Cost::kRead;
  std::size_t body_bytes_max = kNoBody;
  // The names that may stand behind the "?", and what their values are: "id,user,presence=flag" (query_values.h); "*":
  // whoever answers judges them.
  std::string_view query = {};
  Reach reach = Reach::kNothing;
};

// Whether the row's path covers this one; what stands under the stars goes to names.
bool covers(const Route& route, std::string_view path, std::vector<std::string>& names);

// Refuses a name behind the "?" that the row does not know, and a value that cannot be meant.
Result<void> check_query(const Route& route, const HttpRequest& request);

}  // namespace lockstep
