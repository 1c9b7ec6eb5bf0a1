// NVML's calls, answered from the file that $LOCKSTEP_STANDIN_NVML names. The file is read again at every nvmlInit, so
// a fault written into it is seen at the next look.
//
//   count = 8            devices; 0 without a file
//   type = h100          their model: h100, h200, a100, b200, … (product name and memory follow)
//   memory_mb = 81559    of each, instead of the model's
//   island = 8           how many devices share an NVLink switch
//   fault = 3 lost       device 3 does not answer; or "3 ecc": it reports uncorrected memory errors; or "3 missing":
//                        it is not counted
// Blank lines and lines that begin with # are left out. A line that is not understood makes nvmlInit fail, with its
// number in nvmlErrorString.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "io/nvml_abi.h"

struct nvmlDevice_st {
  unsigned int index = 0;
  std::string fault;
};

namespace {

struct Model {
  const char* type;
  const char* product;
  unsigned long long memory_mb;
};
// Product strings and total memory as nvidia-smi prints them for the SXM boards.
constexpr Model kModels[] = {
    {"h100", "NVIDIA H100 80GB HBM3", 81559}, {"h200", "NVIDIA H200", 143771},
    {"a100", "NVIDIA A100-SXM4-80GB", 81920}, {"b200", "NVIDIA B200", 183359},
    {"v100", "Tesla V100-SXM2-32GB", 32768},  {"l40s", "NVIDIA L40S", 46068},
};

struct Machine {
  std::mutex lock;
  int users = 0;
  std::string complaint;
  std::string product = "NVIDIA H100 80GB HBM3";
  unsigned long long memory_mb = 81559;
  unsigned int island = 8;
  std::vector<nvmlDevice_st> devices;
  std::string host;
};
Machine machine;  // the library's one state, as in the original

std::string trimmed(const std::string& text) {
  const auto from = text.find_first_not_of(" \t\r\n");
  if (from == std::string::npos)
    return {};
  return text.substr(from, text.find_last_not_of(" \t\r\n") - from + 1);
}

bool number(const std::string& text, unsigned long long most, unsigned long long& out) {
  char* end = nullptr;
  if (text.empty() || text[0] < '0' || text[0] > '9')
    return false;
  out = strtoull(text.c_str(), &end, 10);
  return *end == 0 && out <= most;
}

void set_type(const std::string& type) {
  for (const Model& model : kModels)
    if (type == model.type) {
      machine.product = model.product;
      machine.memory_mb = model.memory_mb;
      return;
    }
  machine.product = "NVIDIA " + type;
  machine.memory_mb = 81559;
}

bool read_line(const std::string& line, unsigned long long& count, std::map<unsigned long long, std::string>& faults) {
  const auto equals = line.find('=');
  if (equals == std::string::npos)
    return false;
  const std::string key = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
  unsigned long long n = 0;
  if (key == "count")
    return number(value, 64, count);
  if (key == "type")
    return set_type(value), !value.empty();
  if (key == "memory_mb")
    return number(value, 1ull << 32, machine.memory_mb);
  if (key == "island") {
    if (!number(value, 64, n) || n == 0)
      return false;
    machine.island = static_cast<unsigned int>(n);
    return true;
  }
  if (key == "fault") {
    const auto blank = value.find(' ');
    if (blank == std::string::npos || !number(value.substr(0, blank), 63, n))
      return false;
    faults[n] = trimmed(value.substr(blank));
    return faults[n] == "lost" || faults[n] == "ecc" || faults[n] == "missing";
  }
  return false;
}

// A FIFO would hold the agent up until somebody writes to it, a device or a huge file for ever.
FILE* open_file(const char* path) {
  constexpr off_t kBytesMax = 1 << 20;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return nullptr;
  struct stat found {};
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size <= kBytesMax)
    return fdopen(fd, "r");
  close(fd);
  machine.complaint = std::string(path) + " is no regular file of at most 1 MiB";
  return nullptr;
}

bool load() {
  machine.devices.clear();
  machine.complaint.clear();
  set_type("h100");
  machine.island = 8;
  char host[65] = "node";
  gethostname(host, sizeof host - 1);
  machine.host = host;
  const char* path = getenv("LOCKSTEP_STANDIN_NVML");
  FILE* file = path ? open_file(path) : nullptr;
  if (!file)
    return machine.complaint.empty();
  unsigned long long count = 0;
  std::map<unsigned long long, std::string> faults;
  char buffer[512];
  for (int line_number = 1; fgets(buffer, sizeof buffer, file); ++line_number) {
    const std::string line = trimmed(buffer);
    if (line.empty() || line[0] == '#')
      continue;
    if (!read_line(line, count, faults)) {
      machine.complaint = std::string(path) + " line " + std::to_string(line_number) + " is not understood: " + line;
      fclose(file);
      return false;
    }
  }
  fclose(file);
  for (unsigned int i = 0; i < count; ++i)
    if (faults[i] != "missing")
      machine.devices.push_back({i, faults[i]});
  return true;
}

nvmlReturn_t put(const std::string& text, char* out, unsigned int size) {
  if (!out)
    return NVML_ERROR_INVALID_ARGUMENT_;
  if (text.size() + 1 > size)
    return NVML_ERROR_INSUFFICIENT_SIZE_;
  memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS_;
}

nvmlReturn_t usable(nvmlDevice_t device) {
  if (machine.users == 0)
    return NVML_ERROR_UNINITIALIZED_;
  if (!device)
    return NVML_ERROR_INVALID_ARGUMENT_;
  return device->fault == "lost" ? NVML_ERROR_GPU_IS_LOST_ : NVML_SUCCESS_;
}

void describe_bus(nvmlPciInfo_t* pci, unsigned int bus, unsigned int device) {
  *pci = {};
  pci->bus = bus;
  pci->device = device;
  snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", 0, bus, device);
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", 0, bus, device);
}

// Differs by host and device, and stays the same.
std::string uuid_of(unsigned int index) {
  unsigned long long h = 0xcbf29ce484222325ull;
  for (const char c : machine.host + "/" + std::to_string(index))
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  char text[64];
  snprintf(text, sizeof text, "GPU-%08llx-%04llx-%04llx-%04x-%012llx", h >> 32, (h >> 16) & 0xffff, h & 0xffff, index,
           h & 0xffffffffffffull);
  return text;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define CHECK_DEVICE(device)                                         \
  if (const nvmlReturn_t bad = usable(device); bad != NVML_SUCCESS_) \
  return bad

EXPORT nvmlReturn_t nvmlInit_v2() {
  const std::lock_guard<std::mutex> hold(machine.lock);
  if (!load())
    return NVML_ERROR_UNKNOWN_;
  ++machine.users;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlShutdown() {
  const std::lock_guard<std::mutex> hold(machine.lock);
  if (machine.users == 0)
    return NVML_ERROR_UNINITIALIZED_;
  --machine.users;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  if (machine.users == 0)
    return NVML_ERROR_UNINITIALIZED_;
  if (!count)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *count = static_cast<unsigned int>(machine.devices.size());
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  if (machine.users == 0)
    return NVML_ERROR_UNINITIALIZED_;
  if (!device || index >= machine.devices.size())
    return NVML_ERROR_INVALID_ARGUMENT_;
  *device = &machine.devices[index];
  return usable(*device);
}
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int size) {
  CHECK_DEVICE(device);
  return put(machine.product, name, size);
}
EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int size) {
  CHECK_DEVICE(device);
  return put(uuid_of(device->index), uuid, size);
}
EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  CHECK_DEVICE(device);
  if (!minor)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *minor = device->index;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  CHECK_DEVICE(device);
  if (!memory)
    return NVML_ERROR_INVALID_ARGUMENT_;
  memory->total = memory->free = machine.memory_mb << 20;
  memory->used = 0;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  CHECK_DEVICE(device);
  if (!pci)
    return NVML_ERROR_INVALID_ARGUMENT_;
  describe_bus(pci, 0x10 + device->index, 0);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int* active) {
  CHECK_DEVICE(device);
  if (!active || link >= NVML_NVLINK_MAX_LINKS_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *active = 1;
  return NVML_SUCCESS_;
}
// Every link leads to the island's switch.
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci) {
  CHECK_DEVICE(device);
  if (!pci || link >= NVML_NVLINK_MAX_LINKS_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  describe_bus(pci, 0xc0 + device->index / machine.island, 0);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter,
                                                unsigned long long* errors) {
  CHECK_DEVICE(device);
  if (!errors)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *errors =
      device->fault == "ecc" && type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED_ && counter == NVML_VOLATILE_ECC_ ? 2 : 0;
  return NVML_SUCCESS_;
}
EXPORT const char* nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case NVML_SUCCESS_: return "Success";
    case NVML_ERROR_UNINITIALIZED_: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT_: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED_: return "Not Supported";
    case NVML_ERROR_GPU_IS_LOST_: return "GPU is lost";
    default: return machine.complaint.empty() ? "Unknown Error" : machine.complaint.c_str();
  }
}
