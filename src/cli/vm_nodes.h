// Nodes of a local cluster that are machines of their own (`lockstep up --vm`, docs/vm-nodes.md): Debian guests of
// scripts/vm, emulated where need be, with a kernel, systemd and control groups of version 2. Their agents are
// installed there and join by a token, as on any other machine. Disks and notes of the guests lie in DIR/vms.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster_dir.h"

namespace lockstep {

std::vector<std::string> vm_names(const ClusterConf& conf);  // vm1 … vmN

// Whether guests can be made here: the script is there, and this is root. Said before anything is made.
Result<void> check_vms_possible();
// Boots those that do not run, and makes nodes of those that are none. How many were booted. Takes half a minute where
// the processor is emulated, and minutes the first time, when the guests' disk is made; it says what it waits for.
Result<std::size_t> start_vms(const ClusterDir& dir, const ClusterConf& conf);
// Pulls the plug of every guest of this directory, whatever the settings say. Their disks stay.
Result<void> stop_vms(const ClusterDir& dir);
// The process of the guest, or 0 when it is off, or no guest has this name.
pid_t vm_process(const ClusterDir& dir, const std::string& name);

// What can happen to a machine: "reboot" (by its reset button) or "power-off".
bool is_machine_fault(std::string_view fault);
Result<void> make_machine_fault(const ClusterDir& dir, const std::string& name, const std::string& fault);

}  // namespace lockstep
