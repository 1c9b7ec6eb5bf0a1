// Writing: objects made, replaced, patched and deleted, each as one commit that rests on what was read.
#pragma once

#include <functional>

#include "frontends/kube/server/admission.h"
#include "frontends/kube/server/request.h"
#include "frontends/kube/server/role_book.h"
#include "frontends/kube/server/service_addresses.h"
#include "frontends/kube/server/stream_room.h"
#include "frontends/kube/server/webhook_calls.h"

namespace lockstep::kube {

struct WriteTools {
  std::function<std::string(std::size_t)> random_hex;
  std::shared_ptr<const ServiceAddresses> services;
  std::shared_ptr<const RoleBook> roles;
  std::shared_ptr<PolicyBook> policies;
  CallsOut call;  // of webhooks; empty: nobody is called
  const Kinds* kinds = nullptr;
  std::shared_ptr<StreamRoom> streams;                      // to nodes that are told of changes
  std::function<std::vector<std::string>()> own_addresses;  // of the controller's machine; empty: none are known
};

// Goes on when policies and webhooks let the caller connect to the pod; else it answers.
void admit_connection(const Asked& request, const WriteTools& tools, std::function<void()> then);
// Commits for the request. What the API's rules allow of pods is more than their caller could do with jobs.
void commit_for(const Request& request, std::vector<CommandBody> bodies, Reading read,
                std::function<void(Result<Answer>)> then);
void create_object(const Asked& request, const WriteTools& tools);
void update_object(const Asked& request, const WriteTools& tools);
void patch_object(const Asked& request, const WriteTools& tools);
void delete_object(const Asked& request, const WriteTools& tools);
void delete_objects(const Asked& request, const WriteTools& tools, const ObjectHistory& history);

}  // namespace lockstep::kube
