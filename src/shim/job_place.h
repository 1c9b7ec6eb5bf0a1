// The places that a job has to itself on a node: /tmp, /var/tmp and /dev/shm, System V's shared memory and queues, a
// directory for its files, a /proc that shows the processes of its user alone and, where the node does not know that
// user, an /etc/passwd and /etc/group that do. All but the directory are mounts in a namespace of the job's, which each
// of its tasks joins by itself.
//
//   RUN/places/12-1/    for us alone: `place` says how it is to be (written by the agent), `ns` is the namespace
//                       (bound there by the first shim that needs it), `ipc` that of System V's objects, `passwd`
//                       and `group`
//   SCRATCH/12-1/       `scratch` is the user's, `private` is closed and holds what the job finds as /tmp and /var/tmp
//
// Both stay until remove_job_place(), whatever becomes of agent and shims. Sources: mount_namespaces(7), proc(5),
// tmpfs(5), pam_namespace(8); Slurm's job_container/tmpfs is the peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/work_id.h"

namespace lockstep {

struct JobPlace {
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;
  std::string scratch;             // SCRATCH/12-1
  std::int64_t scratch_mb = 0;     // that it may hold, where the file system can count; 0 = no bound
  bool apart = false;              // with a namespace, which only root makes
  bool private_tmp = false;        // /tmp and /var/tmp are its own, in SCRATCH/12-1
  std::int64_t tmpfs_mb = 0;       // > 0: /tmp is its own, of this size in memory
  std::int64_t memory_mb = 0;      // of the job on this node, which bounds its /dev/shm; 0 = half of the machine's
  std::string work_dir;            // of the job: it is seen also where it lies below the node's /tmp
  std::vector<std::string> shown;  // directories of ours of which the same holds
  std::string user_name, user_home, user_shell;  // for a node that does not know the user
  friend bool operator==(const JobPlace&, const JobPlace&) = default;
};

std::string encode_job_place(const JobPlace& place);
Result<JobPlace> decode_job_place(std::string_view text);  // unknown names of a later version are passed over

// "12-1": what the folders of an attempt are called.
std::string place_name(JobId job, AttemptNo attempt);
std::optional<std::pair<JobId, AttemptNo>> parse_place_name(std::string_view name);

inline constexpr std::string_view kPlacesFolder = "places";
inline constexpr const char* kRemovePlaceOption = "--remove-place";  // FOLDER SCRATCH: remove_job_place() as a program

// Notes what a job is to have, before anything of it starts. A place that is there stays as it is.
Result<void> note_job_place(const std::string& folder, const JobPlace& place);

// What a task needs to join.
struct OpenPlace {
  int mounts = -1;      // the namespace, for setns(2); -1 = none
  int ipc = -1;         // likewise of System V's objects
  int outside = -1;     // the root directory of the node, by which files are opened as they are called outside
  std::string scratch;  // the user's directory; "" = none
};

// The place of a folder RUN/places/12-1, which is made if nobody has; whoever comes meanwhile waits. Without the folder
// there is none. The descriptors are the caller's, and closed in what it executes.
Result<OpenPlace> open_job_place(const std::string& folder);

// Nothing of it is left: mounts, memory, files. May take as long as there are files. An error: some could not be
// removed, and the folders are there still.
Result<void> remove_job_place(const std::string& folder, const std::string& scratch);

// As a program of its own, in the background: the exit code, with the reason on stderr.
int run_remove_place(const char* folder, const char* scratch);

// What each task is told: $LOCKSTEP_SCRATCH and $SLURM_TMPDIR name its
// directory, and what was meant for us is taken out.
void tell_place(const OpenPlace& place, std::vector<std::string>& env);

}  // namespace lockstep
