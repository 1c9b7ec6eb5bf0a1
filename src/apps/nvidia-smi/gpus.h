// What the parts of nvidia-smi share: the GPUs that were chosen, what is read of them, and how a failure ends the
// program. Exit codes are those of NVIDIA's manual page.
#pragma once

#include <string>
#include <vector>

#include "io/gpus/nvml_library.h"

namespace lockstep::smi {

enum ExitCode {
  kFine = 0,
  kBadArgument = 2,
  kNotAvailable = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kNoDriver = 9,
  kNoLibrary = 12,
  kLost = 15,
  kOther = 255
};
int exit_code_of(nvmlReturn_t code);

struct Gpu {
  unsigned int index = 0;
  nvmlDevice_t device = nullptr;  // null where it does not answer
  nvmlReturn_t error = NVML_SUCCESS_;
};

struct Gpus {
  const NvmlLibrary& nvml;
  std::vector<Gpu> chosen;  // by -i, else all
  unsigned int all = 0;
};

// A number, or nothing where the GPU does not tell: shown as "[N/A]" in lists and as "N/A" in tables.
struct Shown {
  std::string text;
  std::string unit;  // "MiB"; "" = none
  bool known = true;
};
inline Shown unknown() { return {"", "", false}; }

std::string text_of(const NvmlLibrary& nvml, const NvmlCall<decltype(nvmlDeviceGetName)>& call, nvmlDevice_t device);
std::string bus_id_of(const NvmlLibrary& nvml, nvmlDevice_t device);
std::string local_time(const char* form);  // the local time, as strftime writes it
std::string process_name(const NvmlLibrary& nvml, unsigned int pid);

struct Process {
  unsigned int gpu = 0;
  nvmlDevice_t device = nullptr;
  nvmlProcessInfo_t info{};
  bool mps = false;
};
// Of the chosen GPUs, by GPU and pid; those on MIG devices among them.
std::vector<Process> compute_processes(const Gpus& gpus);

// The sub-commands: each prints and returns the exit code.
int list_gpus(const Gpus& gpus);                                                  // -L
int show_table(const Gpus& gpus);                                                 // without arguments
int show_everything(const Gpus& gpus, const std::vector<std::string>& sections);  // -q [-d]
int show_topology(const Gpus& gpus);                                              // topo -m
int run_mig(const Gpus& gpus, const std::vector<std::string>& words);             // mig …

struct QueryFormat {
  bool header = true, units = true;
};
int query_gpus(const Gpus& gpus, const std::string& fields, QueryFormat format);
int query_processes(const Gpus& gpus, const std::string& fields, QueryFormat format);
void help_query_gpus();
void help_query_processes();

// One property by its name in --query-gpu. The name must be one.
bool is_property(const std::string& name);
Shown property(const Gpus& gpus, const Gpu& gpu, const std::string& name);

}  // namespace lockstep::smi
