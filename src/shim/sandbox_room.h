// What a sandbox of root's has on its node before its containers come: a mount namespace beside the node's, in which
// its folders and memory lie, its files of names, a control group below its task's, and where it shares processes, a
// process that holds their namespace. Made by its keeper for itself: the kernel takes the mounts and processes with it.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "model/sandbox.h"
#include "shim/sandbox_program.h"

namespace lockstep {

struct SandboxRoom {
  std::string home, work, program, address;  // as of SandboxSurroundings
  std::string folder;                        // wire/sandbox_paths.h
  std::string group;                         // of the keeper, from the root of every hierarchy; "" = there is none
  std::string cpu_group;                     // likewise, where processors are shared by another hierarchy
  std::string process_space;                 // file of the PID namespace that all share; "" = each has its own
};

// Whether containers with images are made by runc: of root alone, who may give rights, and where a front end made the
// sandbox or rights are asked for. All others are made by lockstep-container in a user namespace.
bool has_room(const Sandbox& sandbox);

// Error: it cannot be, now or ever: which folder, file or setting of the kernel.
Result<SandboxRoom> make_room(const Sandbox& sandbox, const SandboxSurroundings& around);

// The text of /etc/hosts inside. own: what the node has, where the sandbox shares its network.
std::string hosts_text(const Sandbox& sandbox, const std::string& host_name, const std::string& address,
                       const std::string& own);
std::string lookup_text(const NameLookup& lookup);

// Our control group, of what /proc/self/cgroup says: that of memory, or of version 2. "" = the root, or none.
std::string group_in(std::string_view text, std::string_view controller = "memory");

// By which processors are shared between the pod and others, by Kubernetes' formula: 1024 for each core that its
// containers ask for, at least 2.
std::uint64_t cpu_shares_of(const Sandbox& sandbox);
// The same under version 2, between 1 and 10,000.
std::uint64_t cpu_weight_of_shares(std::uint64_t shares);
// Gives that to the task's control group and to its job's above it, where a front end made the sandbox. The containers
// are below room.group in every hierarchy, also in that of processors where we are elsewhere there.
void weigh_task(const Sandbox& sandbox, const SandboxRoom& room);

// What the containers of the sandbox may hold of memory together; 0 = no bound.
std::uint64_t memory_limit_of(const Sandbox& sandbox);

// What nobody needs any more is removed later, by who sweeps (container/step_container.h).
void put_aside(const SandboxRoom& room, const std::string& path, const std::string& name);
// The sandbox has ended: its logs stay, all else goes.
void leave_room(const SandboxRoom& room);

// The control groups of its task and job may have so much memory from now on, where they had so much before: what its
// containers have is theirs alone. As far as the kernel lets them.
void change_memory_of_task(const std::string& group, std::uint64_t before_bytes, std::uint64_t bytes);

// Its containers' groups, which are empty by now, and what runc made beside them.
void remove_groups(const SandboxRoom& room);

}  // namespace lockstep
