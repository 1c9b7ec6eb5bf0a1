// What a page of a front end is made from: everything it may look at, as of one moment, and the request in plain terms.
// A page is a pure function of the two; the controller calls it on the thread that owns the tables.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/history.h"
#include "model/tables.h"
#include "views/job_index.h"
#include "views/live_use.h"
#include "views/plan_notes.h"
#include "views/visibility.h"

namespace lockstep {

// What is taken on one node: the sum of the grants held there.
struct NodeUse {
  CoreSet cores;
  DeviceSet devices;
  std::int64_t memory_mb = 0;
  std::uint32_t grants = 0;
};

struct ReadContext {
  const Tables& tables;
  const PlanNotes& notes;  // what the planner says of pending jobs
  Instant now;
  Duration wall_offset;          // adds to an Instant to give the wall clock
  const User* caller = nullptr;  // null: nobody the cluster knows
  bool admin = false;
  std::string cluster_name;
  std::function<NodeUse(NodeId)> node_use;
  std::function<Result<std::string>(const BlobId&)> blob;  // scripts and environments
  const JobIndex* index = nullptr;                         // kLive only; null: every job is looked at
  // Only for pages of PageKind::kHistory. Those and kTables have no notes and no node_use.
  std::function<Result<std::vector<JobRow>>(const HistoryQuery&)> history;
  const LiveUse* live = nullptr;  // what nodes measured last; kLive only

  NodeId only_on = {};  // as Caller::only_on

  Viewer viewer() const { return {caller ? caller->id : UserId{}, admin, only_on}; }
};

struct PageRequest {
  std::string path;                                       // decoded, without the query
  std::map<std::string, std::string, std::less<>> query;  // decoded
};
struct PageReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  // A long page writes itself in pieces: each call adds one behind the body, a millisecond's work at most, and says
  // whether there is more. Between two calls the tables may move on, so what a piece goes through it holds by Ref.
  std::function<bool(std::string& body)> more;
};
// The page with all its pieces; for those who do not have to stop in between.
inline PageReply whole(PageReply reply) {
  while (reply.more && reply.more(reply.body)) {}
  reply.more = nullptr;
  return reply;
}

// kLive: on the I/O thread. kTables: takes long, looks at the tables only, and runs on the readers' thread. kHistory:
// asks the history store, on its thread.
enum class PageKind : unsigned char { kLive, kTables, kHistory };
using Page = std::function<PageReply(const ReadContext&, const PageRequest&)>;

}  // namespace lockstep
