// CHECK: a broken promise inside our own code stops the process, in every build, with the values in the message.
#pragma once

#include <string_view>

namespace lockstep {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view detail = {});

}  // namespace lockstep

// CHECK(free >= 0) or CHECK(free >= 0, fmt::format("node {} free {}", name, free)).
#define CHECK(condition, ...)                                                              \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::lockstep::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
