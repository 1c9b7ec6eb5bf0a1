#include "io/gpus/nvml_library.h"

#include <dlfcn.h>

#include "base/text.h"

namespace lockstep {

NvmlLibrary::NvmlLibrary(const std::string& library) : handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_)
    return;
#define NVML_LOAD_(name, parameters) name.set(dlsym(handle_, #name));
  NVML_CALLS_(NVML_LOAD_)
#undef NVML_LOAD_
  error_string_ = reinterpret_cast<const char* (*)(nvmlReturn_t)>(dlsym(handle_, "nvmlErrorString"));
}

NvmlLibrary::~NvmlLibrary() {
  if (handle_)
    dlclose(handle_);
}

bool NvmlLibrary::usable() const {
  return nvmlInit_v2 && nvmlShutdown && nvmlDeviceGetCount_v2 && nvmlDeviceGetHandleByIndex_v2 && nvmlDeviceGetName &&
         nvmlDeviceGetUUID;
}

std::string NvmlLibrary::words(nvmlReturn_t code) const {
  return error_string_ ? error_string_(code) : format("NVML error {}", code);
}

Result<NvmlSession> NvmlSession::open(const std::string& library) {
  auto nvml = std::make_unique<NvmlLibrary>(library);
  if (!nvml->loaded())
    return Error{Errc::kNotFound, format("{} is not there: no NVIDIA driver is installed", library), {}};
  if (!nvml->usable())
    return Error{Errc::kUnsupported, format("{} lacks functions every NVML has", library), {}};
  if (const auto code = nvml->nvmlInit_v2(); code != NVML_SUCCESS_)
    return Error{Errc::kUnavailable, format("NVML does not start: {}", nvml->words(code)), {}};
  return NvmlSession(std::move(nvml));
}

NvmlSession& NvmlSession::operator=(NvmlSession&& other) noexcept {
  std::swap(library_, other.library_);
  return *this;
}

NvmlSession::~NvmlSession() {
  if (library_)
    library_->nvmlShutdown();
}

}  // namespace lockstep
