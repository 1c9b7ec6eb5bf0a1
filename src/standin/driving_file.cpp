#include "standin/driving_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace standin {

namespace {

std::string trimmed(const std::string& text) {
  const auto from = text.find_first_not_of(" \t\r\n");
  if (from == std::string::npos)
    return {};
  return text.substr(from, text.find_last_not_of(" \t\r\n") - from + 1);
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \t", at)) != std::string::npos;) {
    const auto end = std::min(text.find_first_of(" \t", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

bool number(const std::string& text, unsigned long long most, unsigned long long& out) {
  char* end = nullptr;
  if (text.empty() || text.size() > 19 || text[0] < '0' || text[0] > '9')
    return false;
  out = strtoull(text.c_str(), &end, 10);
  return *end == 0 && out <= most;
}
bool number(const std::string& text, unsigned int most, unsigned int& out) {
  unsigned long long wide = 0;
  if (!number(text, static_cast<unsigned long long>(most), wide))
    return false;
  out = static_cast<unsigned int>(wide);
  return true;
}

// What a GPU is like after an Xid, by NVIDIA's catalogue of them. Those of applications (13, 31, 43, 45 …) leave
// nothing.
void suffer(Gpu& gpu, unsigned int xid) {
  const auto at_least = [&gpu](int action) {
    if (gpu.recovery == NVML_GPU_RECOVERY_ACTION_NONE_ || action == NVML_GPU_RECOVERY_ACTION_NODE_REBOOT_)
      gpu.recovery = action;
  };
  switch (xid) {
    case 79:  // fallen off the bus
      gpu.lost = true;
      at_least(NVML_GPU_RECOVERY_ACTION_NODE_REBOOT_);
      break;
    case 48:  // double bit error
    case 94:  // contained
      ++gpu.uncorrected;
      gpu.remap_pending = true;
      at_least(NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET_);
      break;
    case 95:  // uncontained
      ++gpu.uncorrected;
      gpu.remap_pending = true;
      at_least(NVML_GPU_RECOVERY_ACTION_GPU_RESET_);
      break;
    case 63:  // a row is remapped
      ++gpu.remapped_uncorrected;
      gpu.remap_pending = true;
      at_least(NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET_);
      break;
    case 64:  // a row cannot be remapped
      gpu.remap_failure = true;
      at_least(NVML_GPU_RECOVERY_ACTION_GPU_RESET_);
      break;
    case 74:  // NVLink
      ++gpu.link_errors;
      at_least(NVML_GPU_RECOVERY_ACTION_GPU_RESET_);
      break;
    case 92: gpu.corrected += 100; break;  // many single bit errors
    case 62:                               // the GPU's own controllers have stopped
    case 119:
    case 120:
    case 140:
    case 143: at_least(NVML_GPU_RECOVERY_ACTION_GPU_RESET_); break;
    default: break;
  }
}

bool read_throttle(const std::string& why, Gpu& gpu) {
  if (why == "thermal")
    gpu.throttled |= NVML_CLOCKS_REASON_HW_SLOWDOWN_ | NVML_CLOCKS_REASON_HW_THERMAL_;
  else if (why == "sw_thermal")
    gpu.throttled |= NVML_CLOCKS_REASON_SW_THERMAL_;
  else if (why == "power")
    gpu.throttled |= NVML_CLOCKS_REASON_SW_POWER_CAP_;
  else if (why == "power_brake")
    gpu.throttled |= NVML_CLOCKS_REASON_HW_SLOWDOWN_ | NVML_CLOCKS_REASON_HW_POWER_BRAKE_;
  else
    return false;
  return true;
}

// "lost", "missing", "ecc", "ecc=2", "ecc_corrected=5", "xid=79", "throttle=thermal", "link=3", "remap=pending".
bool read_fault(const std::string& fault, Gpu& gpu) {
  const auto equals = fault.find('=');
  const std::string name = fault.substr(0, equals), value = equals == fault.npos ? "" : fault.substr(equals + 1);
  constexpr unsigned long long kErrorsMax = 1'000'000'000;
  unsigned long long n = 0;
  if (name == "lost" && value.empty()) {
    gpu.lost = true;
    gpu.recovery = NVML_GPU_RECOVERY_ACTION_NODE_REBOOT_;
  } else if (name == "missing" && value.empty()) {
    gpu.missing = true;
  } else if (name == "ecc") {
    if (equals == fault.npos)
      n = 2;
    else if (!number(value, kErrorsMax, n))
      return false;
    gpu.uncorrected += n;
  } else if (name == "ecc_corrected") {
    if (!number(value, kErrorsMax, n))
      return false;
    gpu.corrected += n;
  } else if (name == "xid") {
    if (!number(value, 999ull, n) || n == 0)
      return false;
    gpu.xids.push_back(static_cast<unsigned int>(n));
    suffer(gpu, static_cast<unsigned int>(n));
  } else if (name == "throttle") {
    return read_throttle(value, gpu);
  } else if (name == "link") {
    if (!number(value, NVML_NVLINK_MAX_LINKS_ - 1ull, n))
      return false;
    gpu.links_down |= 1ull << n;
  } else if (name == "remap" && value == "pending") {
    gpu.remap_pending = true;
    ++gpu.remapped_uncorrected;
  } else if (name == "remap" && value == "failure") {
    gpu.remap_failure = true;
  } else {
    return false;
  }
  return true;
}

// GPU ID PROFILE START
bool read_gpu_instance(const std::vector<std::string>& words, const Machine& machine, Gpu& gpu) {
  GpuInstance instance;
  if (words.size() != 4 || !number(words[1], kGpuInstancesMax - 1, instance.id) ||
      !number(words[3], 7u, instance.start))
    return false;
  for (const MigShape& shape : machine.model->mig)
    if (words[2] == shape.name)
      instance.shape = &shape;
  for (const GpuInstance& other : gpu.instances)
    if (other.id == instance.id)
      return false;
  if (!instance.shape)
    return false;
  gpu.instances.push_back(instance);
  return true;
}

// GPU GPU_INSTANCE ID SLICES START
bool read_compute_instance(const std::vector<std::string>& words, Gpu& gpu) {
  ComputeInstance compute;
  unsigned int of = 0;
  if (words.size() != 5 || !number(words[1], kGpuInstancesMax - 1, of) || !number(words[2], 7u, compute.id) ||
      !number(words[3], 7u, compute.slices) || !number(words[4], 6u, compute.start) || compute.slices == 0)
    return false;
  for (GpuInstance& instance : gpu.instances)
    if (instance.id == of) {
      instance.computes.push_back(compute);
      return true;
    }
  return false;
}

bool read_compute_mode(const std::string& word, Gpu& gpu) {
  if (word == "default")
    gpu.compute_mode = NVML_COMPUTEMODE_DEFAULT_;
  else if (word == "exclusive_process")
    gpu.compute_mode = NVML_COMPUTEMODE_EXCLUSIVE_PROCESS_;
  else if (word == "prohibited")
    gpu.compute_mode = NVML_COMPUTEMODE_PROHIBITED_;
  else
    return false;
  return true;
}

bool read_of_gpu(const std::string& key, const std::string& value, Machine& machine) {
  const auto words = words_of(value);
  unsigned int index = 0;
  if (words.empty() || !number(words[0], kGpusMax - 1, index))
    return false;
  Gpu& gpu = machine.gpus[index];
  if (key == "fault")
    return words.size() == 2 && read_fault(words[1], gpu);
  if (key == "mig")
    return gpu.mig = words.size() == 1 && !machine.model->mig.empty();
  if (key == "gpu_instance")
    return gpu.mig && read_gpu_instance(words, machine, gpu);
  if (key == "compute_instance")
    return read_compute_instance(words, gpu);
  if (key == "compute_mode")
    return words.size() == 2 && read_compute_mode(words[1], gpu);
  if (key == "persistence") {
    gpu.persistence = false;
    return words.size() == 2 && words[1] == "off";
  }
  if (key == "power_limit")
    return words.size() == 2 && number(words[1], 2000u, gpu.power_limit_w) && gpu.power_limit_w > 0;
  return false;
}

bool set_type(const std::string& type, Machine& machine) {
  if (type.empty())
    return false;
  machine.type = type;
  machine.model = &model_of(type);
  machine.product = machine.model->product[0] ? machine.model->product : "NVIDIA " + type;
  machine.memory_mb = machine.model->memory_mb;
  machine.links = machine.model->links;
  return true;
}

bool read_line(const std::string& line, Machine& machine) {
  const auto equals = line.find('=');
  if (equals == std::string::npos)
    return false;
  const std::string key = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
  if (key == "count")
    return number(value, kGpusMax, machine.count);
  if (key == "type")
    return set_type(value, machine);
  if (key == "memory_mb")
    return number(value, 1ull << 32, machine.memory_mb);
  if (key == "island")
    return number(value, 64u, machine.island) && machine.island > 0;
  if (key == "numa")
    return number(value, 8u, machine.numa_nodes) && machine.numa_nodes > 0;
  if (key == "links" && value == "none")
    return machine.links = Links::kNone, true;
  if (key == "links" && value == "mesh" && machine.model->link_count > 0)
    return machine.links = Links::kMesh, true;
  if (key == "links" && value == "switch" && machine.model->switches > 0)
    return machine.links = Links::kSwitch, true;
  return read_of_gpu(key, value, machine);
}

}  // namespace

int parse_machine(const std::string& text, Machine& machine) {
  machine = {};
  machine.gpus.resize(kGpusMax);
  set_type("h100", machine);
  char host[65] = "node";
  gethostname(host, sizeof host - 1);
  machine.host = host;
  int line_number = 0;
  for (std::size_t from = 0; from < text.size();) {
    const auto end = std::min(text.find('\n', from), text.size());
    const std::string line = trimmed(text.substr(from, end - from));
    from = end + 1;
    ++line_number;
    if (!line.empty() && line[0] != '#' && !read_line(line, machine))
      return line_number;
  }
  return 0;
}

std::string with_gpu(const std::string& text, unsigned int gpu, const Gpu& now) {
  static const char* const kOurs[] = {"mig",          "gpu_instance", "compute_instance",
                                      "compute_mode", "persistence",  "power_limit"};
  std::string out;
  for (std::size_t from = 0; from < text.size();) {
    const auto end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    const auto equals = line.find('=');
    bool goes = false;
    if (equals != std::string::npos) {
      const std::string key = trimmed(line.substr(0, equals));
      const auto words = words_of(trimmed(line.substr(equals + 1)));
      for (const char* ours : kOurs) goes = goes || (key == ours && !words.empty() && words[0] == std::to_string(gpu));
    }
    if (!goes)
      out += line + "\n";
  }
  const std::string of = std::to_string(gpu);
  if (now.mig)
    out += "mig = " + of + "\n";
  if (!now.persistence)
    out += "persistence = " + of + " off\n";
  if (now.power_limit_w != 0)
    out += "power_limit = " + of + " " + std::to_string(now.power_limit_w) + "\n";
  if (now.compute_mode != NVML_COMPUTEMODE_DEFAULT_)
    out += "compute_mode = " + of +
           (now.compute_mode == NVML_COMPUTEMODE_PROHIBITED_ ? " prohibited\n" : " exclusive_process\n");
  for (const GpuInstance& instance : now.instances) {
    const std::string id = std::to_string(instance.id);
    out += "gpu_instance = " + of + " " + id + " " + instance.shape->name + " " + std::to_string(instance.start) + "\n";
    for (const ComputeInstance& compute : instance.computes)
      out += "compute_instance = " + of + " " + id + " " + std::to_string(compute.id) + " " +
             std::to_string(compute.slices) + " " + std::to_string(compute.start) + "\n";
  }
  return out;
}

Read read_driving_file(const std::string& path, std::string& text) {
  constexpr off_t kBytesMax = 1 << 20;
  text.clear();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return Read::kNothing;
  struct stat found {};
  const bool plain = fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size <= kBytesMax;
  if (plain) {
    text.resize(static_cast<std::size_t>(found.st_size));
    std::size_t have = 0;
    for (ssize_t n; have < text.size() && (n = read(fd, text.data() + have, text.size() - have)) > 0;)
      have += static_cast<std::size_t>(n);
    text.resize(have);
  }
  close(fd);
  return plain ? Read::kText : Read::kRefused;
}

}  // namespace standin
