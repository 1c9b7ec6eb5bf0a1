// Writing: objects made, replaced, patched and deleted, each as one commit that rests on what was read.
#pragma once

#include <functional>

#include "frontends/kube/server/request.h"
#include "frontends/kube/server/role_book.h"
#include "frontends/kube/server/service_addresses.h"

namespace lockstep::kube {

struct WriteTools {
  std::function<std::string(std::size_t)> random_hex;
  std::shared_ptr<const ServiceAddresses> services;
  std::shared_ptr<const RoleBook> roles;
};

void create_object(const Asked& request, const WriteTools& tools);
void update_object(const Asked& request, const WriteTools& tools);
void patch_object(const Asked& request, const WriteTools& tools);
void delete_object(const Asked& request);
void delete_objects(const Asked& request, const ObjectHistory& history);

}  // namespace lockstep::kube
