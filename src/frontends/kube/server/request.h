// One request of Kubernetes' API on its way through the server.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/kube/kinds/scale.h"
#include "frontends/kube/machinery/status.h"
#include "frontends/kube/server/accept.h"
#include "frontends/kube/server/kinds.h"
#include "frontends/kube/server/target.h"
#include "frontends/kube/server/user.h"
#include "frontends/kube/store/object_history.h"
#include "frontends/kube/store/stored_object.h"
#include "routes/front_end.h"

namespace lockstep::kube {

struct Request {
  std::shared_ptr<FrontVisit> visit;
  Target target;
  std::shared_ptr<const Kind> kind;  // null: the path is of no resource
  KubeUser user;
  Accepted accepted;
  std::vector<std::string> warnings;
  bool dry_run = false;
  WallTime now;  // when it was last tried: what is done beside the I/O thread asks no clock

  const HttpRequest& http() const { return visit->request(); }
  Qualified resource() const { return {target.group, target.resource}; }
  ShownAs shown_as() const { return {api_version, kind->kind}; }
  std::string api_version;  // of the version that the path names
  // What a webhook made of objects that are stored in another version, by uid and version.
  std::map<std::pair<Uid, Seq>, json::object> converted;
  std::optional<json::object> written;  // what was just written, as it was sent
};
using Asked = std::shared_ptr<Request>;

// What is sent and answered at the request's path: of a subresource perhaps another kind.
ShownAs sent_kind(const Request& request, std::string& api_version);
bool is_scale(const Request& request);
const ScalePaths& scale_paths(const Request& request);

// In the form that the request accepts: a tree that has kind and apiVersion.
void answer_tree(const Request& request, const json::object& tree, int status = 200);
void answer_json(const Request& request, std::string body, int status = 200);
void answer_body(const Request& request, std::string_view type, std::string body, int status = 200);
// What is of no resource, in the form that the client accepts.
HttpResponse as_accepted(const HttpRequest& http, HttpResponse answer);
void answer_status(const Request& request, const Status& status);
void answer_status(FrontVisit& visit, const Status& status);
// Told with the answer, each once, however often the request is tried.
void add_warnings(Request& request, std::vector<std::string> warnings);
// The Status of what the core refused.
Status status_of(const Error& error, const Qualified& resource, std::string_view name);

// Adds to an Instant to give the wall clock, as the cluster noted it last: what was shown once is shown so again, while
// the clock's own offset moves by microseconds.
Duration wall_offset_of(const ReadContext& read);

// Where the object is that the request names.
ObjectKey key_of(const Request& request);
Ref<Object> find_object(const Request& request);

}  // namespace lockstep::kube
