// Threads that may not come to be: a user's, a container's or a machine's limit is an error to report, no crash.
#pragma once

#include <functional>
#include <thread>

#include "base/result.h"

namespace lockstep {

// kExhausted when the system makes no more threads. The work is gone then, and has not begun.
Result<std::thread> start_thread(std::function<void()> work);

// For a program that cannot begin without it: says for what no thread could be made, and ends the process with 1.
std::thread start_thread_or_exit(const char* whose, std::function<void()> work);

}  // namespace lockstep
