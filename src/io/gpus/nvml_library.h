// NVIDIA's management library, loaded at run time. Each of its calls is a member of the same name; one that the library
// lacks, because it is older, answers NVML_ERROR_FUNCTION_NOT_FOUND.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "io/gpus/nvml_abi.h"

namespace lockstep {

template <class Function>
class NvmlCall;

template <class... Arguments>
class NvmlCall<nvmlReturn_t(Arguments...)> {
 public:
  void set(void* symbol) { call_ = reinterpret_cast<nvmlReturn_t (*)(Arguments...)>(symbol); }
  nvmlReturn_t operator()(Arguments... arguments) const {
    return call_ ? call_(arguments...) : NVML_ERROR_FUNCTION_NOT_FOUND_;
  }
  explicit operator bool() const { return call_ != nullptr; }

 private:
  nvmlReturn_t (*call_)(Arguments...) = nullptr;
};

class NvmlLibrary {
 public:
  // library: what to dlopen; the dynamic linker's search path decides which one that is.
  explicit NvmlLibrary(const std::string& library = "libnvidia-ml.so.1");
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  bool loaded() const { return handle_ != nullptr; }
  bool usable() const;                         // has what every NVML has
  std::string words(nvmlReturn_t code) const;  // "GPU is lost"

#define NVML_MEMBER_(name, parameters) NvmlCall<decltype(::name)> name;
  NVML_CALLS_(NVML_MEMBER_)
#undef NVML_MEMBER_

 private:
  void* handle_;
  const char* (*error_string_)(nvmlReturn_t) = nullptr;
};

// The library between nvmlInit and nvmlShutdown. kNotFound: no driver is installed.
class NvmlSession {
 public:
  static Result<NvmlSession> open(const std::string& library = "libnvidia-ml.so.1");
  NvmlSession(NvmlSession&&) noexcept = default;
  NvmlSession& operator=(NvmlSession&&) noexcept;
  ~NvmlSession();
  const NvmlLibrary& operator*() const { return *library_; }
  const NvmlLibrary* operator->() const { return library_.get(); }

 private:
  explicit NvmlSession(std::unique_ptr<NvmlLibrary> library) : library_(std::move(library)) {}
  std::unique_ptr<NvmlLibrary> library_;
};

}  // namespace lockstep
