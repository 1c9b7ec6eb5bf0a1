// What a service manager (systemd, Type=notify) that started us wants to know: that we are ready, how we are. Lines as
// in sd_notify(3): "READY=1", "STATUS=…".
#pragma once

#include <string_view>

namespace lockstep {

// Nobody is told where no manager asked for it ($NOTIFY_SOCKET). A line break within a text would begin a line of its
// own.
void tell_service_manager(std::string_view lines);

}  // namespace lockstep
