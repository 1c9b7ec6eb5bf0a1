// The process that keeps the containers of a sandbox: what the task's first process is where it has one. It has the
// user's rights and no others, decides by SandboxLogic, and tells its shim how the containers are doing, a line each
// time (wire/sandbox_text.h). Each container has a process of its own between it and us, which is the parent of all
// that the container leaves behind, ends that with it, and ends as the container did.
#pragma once

#include <signal.h>

namespace lockstep {

inline constexpr const char* kSandboxOption = "--sandbox";
inline constexpr int kSandboxSpecFd = 3;    // what is to run: encode_sandbox
inline constexpr int kSandboxStatusFd = 4;  // where it tells
// Who reads them is the keeper: its containers do not see them.
inline constexpr const char* kSandboxGraceVariable = "LOCKSTEP_SANDBOX_GRACE_MS";
inline constexpr const char* kSandboxProgramVariable = "LOCKSTEP_SANDBOX_CONTAINER_PROGRAM";  // lockstep-container
// Every container finds the sandbox's own address here, where it has one.
inline constexpr const char* kTaskAddressVariable = "LOCKSTEP_TASK_ADDRESS";
inline constexpr const char* kVolumesVariable = "LOCKSTEP_VOLUMES";  // folder with one for each volume, on the node

// Tells it that its front end has something new for the sandbox (ContainerAsk::What::kLook).
inline constexpr int kLookSignal = SIGUSR2;

int run_sandbox_keeper();

}  // namespace lockstep
