// The functions of the PMIx library that a server needs, found in libpmix.so.2 when it is loaded: versions 3 to 5 of
// PMIx have this name and these functions.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace lockstep {

struct PmixLibrary {
  decltype(&::PMIx_server_init) server_init = nullptr;
  decltype(&::PMIx_server_finalize) server_finalize = nullptr;
  decltype(&::PMIx_server_register_nspace) register_nspace = nullptr;
  decltype(&::PMIx_server_register_client) register_client = nullptr;
  decltype(&::PMIx_server_setup_fork) setup_fork = nullptr;
  decltype(&::PMIx_server_dmodex_request) dmodex_request = nullptr;
  decltype(&::PMIx_generate_regex) generate_regex = nullptr;
  decltype(&::PMIx_generate_ppn) generate_ppn = nullptr;
  decltype(&::PMIx_Error_string) error_string = nullptr;

  // It stays loaded. An error says what is missing, and from which package it comes.
  static Result<PmixLibrary> load();
};

}  // namespace lockstep
