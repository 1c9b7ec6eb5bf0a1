// A container's namespaces: a user namespace in which the user is alone (as itself or as root), a mount namespace whose
// root is the image under a writable layer, and a process that holds both for as long as tasks may join them. All other
// namespaces are the node's: ranks of one step share memory and devices, and reach the network, as without container.
//
// Everything is done by a process with the user's rights and no others, so the kernel refuses what the user may not see
// or do; what an image says is resolved within the image's root.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "container/cdi.h"
#include "container/open_file.h"
#include "model/program.h"

namespace lockstep {

struct BoxPlan {
  std::vector<std::string> lower;  // folders, the topmost first; all of them stay as they are
  std::string upper, work;         // folders that take the changes; "" = memory takes them
  std::string at;                  // an empty folder, for the mount
  bool read_only = false;
  bool as_root = false;
  std::vector<Mount> mounts;  // in this order
  CdiEdits devices;
  std::string work_dir;        // made if it is not there
  std::string home;            // told in /etc/passwd, where the user is not in it
  std::vector<int> keep_open;  // by the process that holds it
};

// The process that holds the new namespaces: it sleeps until it is killed. notes: what could not be had, and is not
// needed.
Result<pid_t> make_box(const BoxPlan& plan, std::vector<std::string>& notes);

// Into the namespaces of such a process; ours are one thread's. Its root is ours then.
Result<void> join_box(pid_t holder);
// Another process that holds the namespaces of the first one, so that they stay when that one ends.
Result<pid_t> hold_box(pid_t holder, const std::vector<int>& keep_open);

// The name of a process's mount namespace, "mnt:[…]"; "" where it is gone or somebody else's. A number that has become
// another process's by now is told by it.
std::string mount_space_of(pid_t process);

// Gives up what a user namespace gave us: no capability is left, nor can any be had.
Result<void> drop_capabilities();

// Runs `body` in a child with the layers of the plan mounted at plan.at, for whoever wants to read them as one.
Result<void> with_layers(const BoxPlan& plan, Result<void> (*body)(void*), void* context);

// "lowerdir=…,upperdir=…": as overlayfs parses it.
std::string overlay_options(const BoxPlan& plan);

}  // namespace lockstep
