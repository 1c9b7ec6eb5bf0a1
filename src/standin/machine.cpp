#include "standin/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>

#include "standin/driving_file.h"
#include "standin/processes.h"

namespace standin {

namespace {

// Where a virtual node keeps it, for whoever is not told otherwise.
constexpr const char* kPlace = "/run/lockstep/gpus";

struct FileMark {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = -1;
  timespec changed{};
  bool operator==(const FileMark& o) const {
    return device == o.device && inode == o.inode && size == o.size && changed.tv_sec == o.changed.tv_sec &&
           changed.tv_nsec == o.changed.tv_nsec;
  }
};

struct Library {
  std::mutex lock;
  int users = 0;
  Machine machine;
  FileMark mark;
  std::vector<unsigned int> present;
  std::string complaint;
  std::string text;  // of the file, while it is being changed
  std::map<std::tuple<unsigned int, unsigned int, unsigned int, unsigned int>, nvmlDevice_st> handles;
};
Library library;  // the one state, as in the original

std::string place() {
  const char* told = getenv("LOCKSTEP_STANDIN_NVML");
  return told ? told : kPlace;
}

FileMark mark_of(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0)
    return {};
  return {found.st_dev, found.st_ino, found.st_size, found.st_mtim};
}

// False, with a complaint, where the file cannot be used. The machine stays as it was then.
bool load(std::string* keep_text = nullptr) {
  const std::string path = place();
  const FileMark mark = mark_of(path);
  std::string text;
  if (read_driving_file(path, text) == Read::kRefused) {
    library.complaint = path + " is no regular file of at most 1 MiB";
    return false;
  }
  Machine machine;
  if (const int line = parse_machine(text, machine); line != 0) {
    std::size_t from = 0;
    for (int i = 1; i < line; ++i) from = text.find('\n', from) + 1;
    library.complaint = path + " line " + std::to_string(line) +
                        " is not understood: " + text.substr(from, text.find('\n', from) - from);
    return false;
  }
  library.complaint.clear();
  library.machine = std::move(machine);
  library.mark = mark;
  if (keep_text)
    *keep_text = std::move(text);
  return true;
}

bool replace_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0)
    return false;
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fchmod(fd, 0644) == 0;
  close(fd);
  if (written && rename(fresh.c_str(), path.c_str()) == 0)
    return true;
  unlink(fresh.c_str());
  return false;
}

std::string real_place() {
  char real[PATH_MAX];
  return realpath(place().c_str(), real) ? real : "";
}

}  // namespace

Hold::Hold() {
  library.lock.lock();
  if (library.users > 0 && !(mark_of(place()) == library.mark))
    load();
}
Hold::~Hold() { library.lock.unlock(); }
Machine& Hold::operator*() const { return library.machine; }

nvmlReturn_t start() {
  const std::lock_guard<std::mutex> hold(library.lock);
  if (!load())
    return NVML_ERROR_UNKNOWN_;
  if (library.users == 0) {
    look_anew();
    library.present.clear();
    for (unsigned int i = 0; i < library.machine.count; ++i)
      if (!library.machine.gpus[i].missing)
        library.present.push_back(i);
  }
  ++library.users;
  return NVML_SUCCESS_;
}

nvmlReturn_t stop() {
  const std::lock_guard<std::mutex> hold(library.lock);
  if (library.users == 0)
    return NVML_ERROR_UNINITIALIZED_;
  --library.users;
  return NVML_SUCCESS_;
}

bool started(const Hold&) { return library.users > 0; }
const std::string& complaint() { return library.complaint; }
const std::vector<unsigned int>& present(const Hold&) { return library.present; }

nvmlReturn_t begin_change(const Hold&, int& lock_fd) {
  const std::string path = real_place();
  if (path.empty())
    return NVML_ERROR_OPERATING_SYSTEM_;
  if (access(path.c_str(), W_OK) != 0)
    return NVML_ERROR_NO_PERMISSION_;
  lock_fd = open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_fd < 0)
    return errno == EACCES || errno == EPERM ? NVML_ERROR_NO_PERMISSION_ : NVML_ERROR_OPERATING_SYSTEM_;
  while (flock(lock_fd, LOCK_EX) != 0)
    if (errno != EINTR) {
      close(lock_fd);
      return NVML_ERROR_OPERATING_SYSTEM_;
    }
  if (load(&library.text))
    return NVML_SUCCESS_;
  close(lock_fd);
  return NVML_ERROR_UNKNOWN_;
}

nvmlReturn_t end_change(const Hold& hold, int lock_fd, unsigned int gpu, nvmlReturn_t result) {
  const std::string path = real_place();
  if (result == NVML_SUCCESS_ && !replace_file(path, with_gpu(library.text, gpu, (*hold).gpus[gpu])))
    result = NVML_ERROR_OPERATING_SYSTEM_;
  library.mark = {};
  load();
  close(lock_fd);
  return result;
}

nvmlDevice_t handle_of(const Hold&, unsigned int gpu) {
  nvmlDevice_st& device = library.handles[{gpu, 0, 0, 0}];
  device.gpu = gpu;
  return &device;
}

nvmlDevice_t mig_handle_of(const Hold&, unsigned int gpu, unsigned int gpu_instance, unsigned int compute_instance) {
  nvmlDevice_st& device = library.handles[{gpu, 1, gpu_instance, compute_instance}];
  device = {gpu, true, gpu_instance, compute_instance};
  return &device;
}

nvmlReturn_t check(const Hold& hold, nvmlDevice_t device, Takes takes) {
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  if (!device || device->gpu >= kGpusMax || (device->is_mig && takes == Takes::kGpus))
    return NVML_ERROR_INVALID_ARGUMENT_;
  if (gpu_of(hold, device).lost || gpu_of(hold, device).missing)
    return NVML_ERROR_GPU_IS_LOST_;
  if (!device->is_mig)
    return NVML_SUCCESS_;
  const GpuInstance* instance = instance_of(hold, device->gpu, device->gpu_instance);
  if (instance)
    for (const ComputeInstance& compute : instance->computes)
      if (compute.id == device->compute_instance)
        return NVML_SUCCESS_;
  return NVML_ERROR_NOT_FOUND_;
}

const GpuInstance* instance_of(const Hold& hold, unsigned int gpu, unsigned int id) {
  for (const GpuInstance& instance : (*hold).gpus[gpu].instances)
    if (instance.id == id)
      return &instance;
  return nullptr;
}

nvmlReturn_t put(const std::string& text, char* out, unsigned int size) {
  if (!out)
    return NVML_ERROR_INVALID_ARGUMENT_;
  if (text.size() + 1 > size)
    return NVML_ERROR_INSUFFICIENT_SIZE_;
  memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS_;
}

// Differs by host and device, and stays the same.
std::string uuid_of(const Hold& hold, const nvmlDevice_st& device) {
  std::string of = (*hold).host + "/" + std::to_string(device.gpu);
  if (device.is_mig)
    of += "/" + std::to_string(device.gpu_instance) + "/" + std::to_string(device.compute_instance);
  unsigned long long h = 0xcbf29ce484222325ull;
  for (const char c : of) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  char text[64];
  snprintf(text, sizeof text, "%s-%08llx-%04llx-%04llx-%04x-%012llx", device.is_mig ? "MIG" : "GPU", h >> 32,
           (h >> 16) & 0xffff, h & 0xffff, device.gpu, h & 0xffffffffffffull);
  return text;
}

void describe_bus(nvmlPciInfo_t* pci, unsigned int bus, unsigned int device, unsigned int pci_device) {
  *pci = {};
  pci->bus = bus;
  pci->device = device;
  pci->pciDeviceId = pci_device;
  snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", 0, bus, device);
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", 0, bus, device);
}

unsigned int bus_of(unsigned int gpu) { return 0x10 + gpu; }

}  // namespace standin
