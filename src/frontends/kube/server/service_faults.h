// POST /v1/service-faults?space=S&name=N&what=W: a node tells, through its agent, that a Service leads nowhere from it.
// It becomes an event about the Service, in words of ours: a node says of a Service nothing but which and why.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "routes/front_end.h"

namespace lockstep::kube {

inline constexpr const char* kServiceFaultsPath = "/v1/service-faults";

void answer_service_fault(const std::shared_ptr<FrontVisit>& visit,
                          const std::function<std::string(std::string_view)>& sha256_hex);

}  // namespace lockstep::kube
