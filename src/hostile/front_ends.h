// The front ends that lockstepd mounts, for a controller without a world around it: nobody has a token of Kubernetes',
// no certificates are issued, and nothing outside is called.
#pragma once

#include <functional>

#include "controller/server.h"

namespace lockstep::hostile {

// post: runs a task on the controller's I/O thread; empty: webhooks are not asked about what controllers make.
void mount_front_ends(ControllerSettings& settings, std::function<void(std::function<void()>)> post);

}  // namespace lockstep::hostile
