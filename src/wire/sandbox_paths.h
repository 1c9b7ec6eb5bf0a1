// Where a sandbox of root's keeps what it has on its node, for the keeper of the sandbox, for lockstep-container and
// for who reads its logs. Nobody but root can look in.
//
//   HOME/jobs/JOB/sandboxes/WORK/          WORK: the task, as text_of(WorkId)
//     etc/hosts, etc/hostname, etc/resolv.conf
//     shm/  volumes/NAME/
//     runtime/                             runc's own records
//     keeper                               number of its keeper's process, as its shim's namespace has it, locked by it
//     containers/NAME/life                 number of the life that was begun last
//     containers/NAME/attach               socket of who holds its input and output
//     containers/NAME/LIFE/                config.json, process, rootfs/, upper/, sources/, message
//     containers/NAME/LIFE/image           name of its image in the store, which stays as long
//     containers/NAME/LIFE/alive           locked while its output may grow
//     containers/NAME/LIFE/log             its output; log.1 … log.4 are older
//
//   HOME/logs/pods/FOLDER/NAME/LIFE.log    the same logs where others look for them: shown at /var/log/pods
//   HOME/logs/containers/…log              links to them, for /var/log/containers
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text.h"
#include "model/work_id.h"

namespace lockstep {

inline std::string sandbox_folder(std::string_view home, const WorkId& task) {
  return format("{}/jobs/{}/sandboxes/{}", home, task.job.value, text_of(task));
}
inline std::string container_folder(std::string_view sandbox, std::string_view container) {
  return format("{}/containers/{}", sandbox, container);
}
inline std::string life_folder(std::string_view sandbox, std::string_view container, std::uint32_t life) {
  return format("{}/{}", container_folder(sandbox, container), life);
}
// Source: kubernetes.io/docs/concepts/cluster-administration/logging ("How nodes handle container logs").
inline constexpr const char* kPodLogs = "/var/log/pods";
inline constexpr const char* kContainerLogs = "/var/log/containers";
inline std::string shown_logs(std::string_view home) { return format("{}/logs", home); }

// A folder of the node that outlives its sandboxes, where its path does not begin with "/": among those that its agent
// keeps. An Error: it would lead out of them.
inline Result<std::string> path_of_lasting(const std::string& path, std::string_view home) {
  if (path.starts_with('/'))
    return path;
  if (path.empty() || path.find("..") != path.npos)
    return invalid(format("\"{}\" is no path of a volume", path));
  return format("{}/lasting/{}", home, path);
}
// runc's name of it.
inline std::string runtime_id(std::string_view container, std::uint32_t life) {
  return format("{}.{}", container, life);
}

// What the agent tells the keeper beside the job's environment: containers do not see them.
inline constexpr const char* kNodeNameVariable = "LOCKSTEP_SANDBOX_NODE_NAME";
inline constexpr const char* kNodeAddressVariable = "LOCKSTEP_SANDBOX_NODE_ADDRESS";

inline constexpr const char* kRuntimeProgram = "runc";
inline constexpr const char* kProcessFile = "process";  // what a program beside it is run with, but for its words
inline constexpr const char* kImageOfLife = "image";    // which image it is made of; "image.VOLUME" of those it mounts
inline constexpr const char* kLogFile = "log";
inline constexpr int kOlderLogs = 4;
inline constexpr std::uint64_t kLogBytesMax = 10 << 20;

}  // namespace lockstep
