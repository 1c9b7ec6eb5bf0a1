#include "standin/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <set>

namespace standin {

namespace {

struct Process {
  unsigned int pid = 0, parent = 0;
  std::string name, start;  // start: when it began, which tells a pid that is used again
  bool mps = false;
  std::string visible, load;
};

std::string read_whole(const std::string& path, std::size_t most) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return text;
  text.resize(most);
  std::size_t have = 0;
  for (ssize_t n; have < most && (n = read(fd, text.data() + have, most - have)) > 0;)
    have += static_cast<std::size_t>(n);
  close(fd);
  text.resize(have);
  return text;
}

std::string variable(const std::string& environment, const std::string& name) {
  const std::string key = '\0' + name + "=";
  const std::string all = '\0' + environment;
  const auto at = all.find(key);
  if (at == std::string::npos)
    return {};
  const auto from = at + key.size();
  return all.substr(from, std::min(all.find('\0', from), all.size()) - from);
}

// pid (name) state parent … start; the name may hold anything.
bool read_stat(unsigned int pid, Process& process) {
  const std::string text = read_whole("/proc/" + std::to_string(pid) + "/stat", 1024);
  const auto open_at = text.find('('), close_at = text.rfind(')');
  if (open_at == std::string::npos || close_at == std::string::npos)
    return false;
  process.pid = pid;
  process.name = text.substr(open_at + 1, close_at - open_at - 1);
  std::size_t at = close_at + 2;
  for (int field = 3; field < 22 && at != std::string::npos; ++field) {
    if (field == 4)
      process.parent = static_cast<unsigned int>(strtoul(text.c_str() + at, nullptr, 10));
    at = text.find(' ', at);
    at = at == std::string::npos ? at : at + 1;
  }
  if (at == std::string::npos)
    return false;
  process.start = text.substr(at, text.find(' ', at) - at);
  return true;
}

// Those that only start, carry or look are never users.
bool is_bystander(const std::string& name) {
  return name == "nvidia-smi" || name == "srun" || name.rfind("lockstep", 0) == 0;
}

long long now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1'000'000;
}

std::map<unsigned int, Process> known;  // under the library's lock, as all here
long long looked_at_ms = -1;

void look() {
  constexpr long long kEveryMs = 200;
  constexpr std::size_t kEnvironmentMax = 256 << 10, kProcessesMax = 4096;
  if (looked_at_ms >= 0 && now_ms() < looked_at_ms + kEveryMs)
    return;
  std::map<unsigned int, Process> found;
  DIR* all = opendir("/proc");
  while (const dirent* entry = all ? readdir(all) : nullptr) {
    if (!isdigit(static_cast<unsigned char>(entry->d_name[0])) || found.size() >= kProcessesMax)
      continue;
    Process process;
    if (!read_stat(static_cast<unsigned int>(strtoul(entry->d_name, nullptr, 10)), process))
      continue;
    // What a process was started with stays until it runs another program.
    if (const auto last = known.find(process.pid);
        last != known.end() && last->second.start == process.start && last->second.name == process.name) {
      const unsigned int parent = process.parent;
      process = std::move(last->second);
      process.parent = parent;
    } else {
      const std::string environment = read_whole("/proc/" + std::to_string(process.pid) + "/environ", kEnvironmentMax);
      process.visible = variable(environment, "CUDA_VISIBLE_DEVICES");
      process.load = variable(environment, "SIMULATED_GPU_LOAD");
      process.mps = !variable(environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").empty();
    }
    found.emplace(process.pid, std::move(process));
  }
  if (all)
    closedir(all);
  known = std::move(found);
  looked_at_ms = now_ms();
}

// Whether one word of CUDA_VISIBLE_DEVICES means this GPU or a MIG device in it.
bool names(const Hold& hold, const std::string& word, unsigned int gpu, Use& use) {
  if (word.empty())
    return false;
  if (std::all_of(word.begin(), word.end(), [](unsigned char c) { return isdigit(c) != 0; }))
    return word.size() < 4 && strtoul(word.c_str(), nullptr, 10) == gpu;
  if (word.rfind("GPU-", 0) == 0)
    return uuid_of(hold, {gpu}).rfind(word, 0) == 0;
  for (const GpuInstance& instance : (*hold).gpus[gpu].instances)
    for (const ComputeInstance& compute : instance.computes)
      if (uuid_of(hold, {gpu, true, instance.id, compute.id}) == word) {
        use.on_mig = true;
        use.gpu_instance = instance.id;
        use.compute_instance = compute.id;
        return true;
      }
  return false;
}

bool sees(const Hold& hold, const Process& process, unsigned int gpu, Use& use) {
  for (std::size_t from = 0; from < process.visible.size();) {
    const auto end = std::min(process.visible.find(',', from), process.visible.size());
    if (names(hold, process.visible.substr(from, end - from), gpu, use))
      return true;
    from = end + 1;
  }
  return false;
}

void read_load(const Hold& hold, const Process& process, Use& use) {
  use.percent = 90;
  use.bytes = ((*hold).memory_mb << 20) / 8;
  unsigned int percent = 0;
  unsigned long long megabytes = 0;
  if (sscanf(process.load.c_str(), "%3u,%9llu", &percent, &megabytes) == 2) {
    use.percent = std::min(percent, 100u);
    use.bytes = megabytes << 20;
  }
}

}  // namespace

void look_anew() { looked_at_ms = -1; }

std::vector<Use> uses_of(const Hold& hold, unsigned int gpu) {
  look();
  std::vector<Use> uses;
  std::set<unsigned int> waiting;  // whose children use it
  for (const auto& [pid, process] : known) {
    Use use;
    if (process.visible.empty() || !sees(hold, process, gpu, use))
      continue;
    waiting.insert(process.parent);
    if (is_bystander(process.name))
      continue;
    use.pid = pid;
    use.mps = process.mps;
    read_load(hold, process, use);
    uses.push_back(use);
  }
  uses.erase(std::remove_if(uses.begin(), uses.end(), [&](const Use& use) { return waiting.count(use.pid) > 0; }),
             uses.end());
  return uses;
}

std::string process_name(unsigned int pid) {
  std::string words = read_whole("/proc/" + std::to_string(pid) + "/cmdline", 4096);
  if (const auto end = words.find('\0'); end != std::string::npos)
    words.resize(end);
  return words;
}

Load load_of(const Hold& hold, unsigned int gpu) {
  Load load;
  for (const Use& use : uses_of(hold, gpu)) {
    load.percent = std::min(100u, load.percent + use.percent);
    load.bytes += use.bytes;
  }
  load.bytes = std::min(load.bytes, ((*hold).memory_mb - std::min((*hold).memory_mb, 1024ull)) << 20);
  return load;
}

}  // namespace standin
