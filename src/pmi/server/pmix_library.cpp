#include "pmi/server/pmix_library.h"

#include <dlfcn.h>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr const char* kPmixFile = "libpmix.so.2";

template <class Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function)
    missing += missing.empty() ? name : format(", {}", name);
}

}  // namespace

Result<PmixLibrary> PmixLibrary::load() {
  // Global: its own plug-ins look for its functions.
  void* const library = ::dlopen(kPmixFile, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* const why = ::dlerror();
    return Error{
        Errc::kUnsupported,
        format("--mpi=pmix needs the PMIx library on each node (Debian's package libpmix2): {}", why ? why : kPmixFile),
        {}};
  }
  PmixLibrary out;
  std::string missing;
  find(library, "PMIx_server_init", out.server_init, missing);
  find(library, "PMIx_server_finalize", out.server_finalize, missing);
  find(library, "PMIx_server_register_nspace", out.register_nspace, missing);
  find(library, "PMIx_server_register_client", out.register_client, missing);
  find(library, "PMIx_server_setup_fork", out.setup_fork, missing);
  find(library, "PMIx_server_dmodex_request", out.dmodex_request, missing);
  find(library, "PMIx_generate_regex", out.generate_regex, missing);
  find(library, "PMIx_generate_ppn", out.generate_ppn, missing);
  find(library, "PMIx_Error_string", out.error_string, missing);
  if (!missing.empty())
    return Error{Errc::kUnsupported, format("the PMIx library on this node ({}) has no {}", kPmixFile, missing), {}};
  return out;
}

}  // namespace lockstep
