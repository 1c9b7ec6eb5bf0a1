// A node's word that an attempt there has lost a device on which it computes: LaunchFailed of a node at fault that
// begins so. The node is not closed for it, because its other devices are fit.
#pragma once

#include <string>
#include <string_view>

#include "model/command.h"

namespace lockstep {

inline constexpr std::string_view kDeviceLoss = "GPU ";  // "GPU 3 (GPU-…) has fallen off the bus: Xid 79"

inline bool is_device_loss(const LaunchFailed& report) {
  return report.node_at_fault && report.why.starts_with(kDeviceLoss);
}

}  // namespace lockstep
