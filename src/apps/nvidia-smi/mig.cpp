// nvidia-smi mig: GPU instances and compute instances, listed, made and destroyed.
#include <stdio.h>

#include <algorithm>

#include "base/text.h"
#include "gpus.h"

namespace lockstep::smi {

namespace {

struct Profile {
  nvmlGpuInstanceProfileInfo_v2_t info{};
  unsigned int free = 0;
  std::string name() const { return info.name; }  // "MIG 1g.10gb"
};

std::vector<Profile> profiles_of(const Gpus& g, nvmlDevice_t device) {
  std::vector<Profile> all;
  for (unsigned int index = 0; index < NVML_GPU_INSTANCE_PROFILE_COUNT_; ++index) {
    Profile one;
    one.info.version = NVML_VERSION_OF_(nvmlGpuInstanceProfileInfo_v2_t, 2u);
    if (g.nvml.nvmlDeviceGetGpuInstanceProfileInfoV(device, index, &one.info) != NVML_SUCCESS_)
      continue;
    g.nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(device, one.info.id, &one.free);
    all.push_back(one);
  }
  std::sort(all.begin(), all.end(), [](const Profile& a, const Profile& b) {
    return a.info.sliceCount != b.info.sliceCount ? a.info.sliceCount < b.info.sliceCount
                                                  : a.info.memorySizeMB < b.info.memorySizeMB;
  });
  return all;
}

// By number ("9") or by name ("3g.40gb", "MIG 3g.40gb").
const Profile* find(const std::vector<Profile>& all, const std::string& word) {
  const auto id = parse_uint(word);
  for (const Profile& one : all)
    if ((id && *id == one.info.id) || one.name() == word || one.name() == "MIG " + word)
      return &one;
  return nullptr;
}

struct Instance {
  nvmlGpuInstance_t handle = nullptr;
  nvmlGpuInstanceInfo_t info{};
  std::string name;
};
std::vector<Instance> instances_of(const Gpus& g, nvmlDevice_t device) {
  std::vector<Instance> all;
  for (const Profile& profile : profiles_of(g, device)) {
    std::vector<nvmlGpuInstance_t> handles(std::max(profile.info.instanceCount, 8u));
    unsigned int count = 0;
    if (g.nvml.nvmlDeviceGetGpuInstances(device, profile.info.id, handles.data(), &count) != NVML_SUCCESS_)
      continue;
    for (unsigned int i = 0; i < count && i < handles.size(); ++i) {
      Instance one;
      one.handle = handles[i];
      one.name = profile.name();
      if (g.nvml.nvmlGpuInstanceGetInfo(one.handle, &one.info) == NVML_SUCCESS_)
        all.push_back(one);
    }
  }
  std::sort(all.begin(), all.end(), [](const Instance& a, const Instance& b) { return a.info.id < b.info.id; });
  return all;
}

struct Compute {
  nvmlComputeInstance_t handle = nullptr;
  nvmlComputeInstanceInfo_t info{};
  std::string name;
};
std::vector<Compute> computes_of(const Gpus& g, const Instance& instance) {
  std::vector<Compute> all;
  for (unsigned int index = 0; index < NVML_COMPUTE_INSTANCE_PROFILE_COUNT_; ++index) {
    nvmlComputeInstanceProfileInfo_v2_t profile{};
    profile.version = NVML_VERSION_OF_(nvmlComputeInstanceProfileInfo_v2_t, 2u);
    if (g.nvml.nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance.handle, index, 0, &profile) != NVML_SUCCESS_)
      continue;
    std::vector<nvmlComputeInstance_t> handles(std::max(profile.instanceCount, 8u));
    unsigned int count = 0;
    if (g.nvml.nvmlGpuInstanceGetComputeInstances(instance.handle, profile.id, handles.data(), &count) != NVML_SUCCESS_)
      continue;
    for (unsigned int i = 0; i < count && i < handles.size(); ++i) {
      Compute one;
      one.handle = handles[i];
      one.name = profile.name;
      if (g.nvml.nvmlComputeInstanceGetInfo_v2(one.handle, &one.info) == NVML_SUCCESS_)
        all.push_back(one);
    }
  }
  return all;
}

// The compute instance that is as large as its GPU instance.
nvmlReturn_t create_whole_compute(const Gpus& g, nvmlGpuInstance_t instance, unsigned int slices,
                                  nvmlComputeInstanceInfo_t& info, std::string& name) {
  for (unsigned int index = 0; index < NVML_COMPUTE_INSTANCE_PROFILE_COUNT_; ++index) {
    nvmlComputeInstanceProfileInfo_v2_t profile{};
    profile.version = NVML_VERSION_OF_(nvmlComputeInstanceProfileInfo_v2_t, 2u);
    if (g.nvml.nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance, index, 0, &profile) != NVML_SUCCESS_ ||
        profile.sliceCount != slices)
      continue;
    nvmlComputeInstance_t made = nullptr;
    const auto code = g.nvml.nvmlGpuInstanceCreateComputeInstance(instance, profile.id, &made);
    name = profile.name;
    return code == NVML_SUCCESS_ ? g.nvml.nvmlComputeInstanceGetInfo_v2(made, &info) : code;
  }
  return NVML_ERROR_NOT_SUPPORTED_;
}

int failed(const Gpus& g, const char* what, const Gpu& gpu, nvmlReturn_t code) {
  printf("Unable to %s on GPU %2u: %s\n", what, gpu.index, g.nvml.words(code).c_str());
  return exit_code_of(code);
}

bool is_in_mig_mode(const Gpus& g, const Gpu& gpu) {
  unsigned int now = 0, pending = 0;
  return gpu.device && g.nvml.nvmlDeviceGetMigMode(gpu.device, &now, &pending) == NVML_SUCCESS_ && now == 1;
}

const char* kBar = "+-----------------------------------------------------------------------------+";

int list_profiles(const Gpus& g, const Gpu& gpu) {
  printf(
      "%s\n| GPU instance profiles:                                                      |\n"
      "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
      "|                              Free/Total   GiB              CE    JPEG  OFA  |\n"
      "|=============================================================================|\n",
      kBar);
  for (const Profile& one : profiles_of(g, gpu.device))
    printf(
        "| %3u  %-15s  %3u     %u/%-2u     %6.2f       %-3s  %4u   %3u   %3u   |\n"
        "|                                                          %4u   %3u   %3u   |\n%s\n",
        gpu.index, one.name().c_str(), one.info.id, one.free, one.info.instanceCount,
        static_cast<double>(one.info.memorySizeMB) / 1024, one.info.isP2pSupported ? "Yes" : "No",
        one.info.multiprocessorCount, one.info.decoderCount, one.info.encoderCount, one.info.copyEngineCount,
        one.info.jpegCount, one.info.ofaCount, kBar);
  return kFine;
}

int list_placements(const Gpus& g, const Gpu& gpu) {
  for (const Profile& one : profiles_of(g, gpu.device)) {
    nvmlInstancePlacement_t places[16];
    unsigned int count = 16;
    if (g.nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu.device, one.info.id, places, &count) != NVML_SUCCESS_)
      continue;
    std::vector<std::string> starts;
    for (unsigned int i = 0; i < count; ++i) starts.push_back(std::to_string(places[i].start));
    printf("GPU %2u Profile ID %2u Placement%s: {%s}:%u\n", gpu.index, one.info.id, count == 1 ? " " : "s",
           join(starts, ",").c_str(), count > 0 ? places[0].size : 0);
  }
  return kFine;
}

int list_instances(const Gpus& g, const Gpu& gpu) {
  const auto all = instances_of(g, gpu.device);
  if (all.empty()) {
    printf("No GPU instances found: Not Found\n");
    return kNotFound;
  }
  printf(
      "+---------------------------------------------------------+\n"
      "| GPU instances:                                          |\n"
      "| GPU   Name               Profile  Instance   Placement  |\n"
      "|                            ID       ID       Start:Size |\n"
      "|=========================================================|\n");
  for (const Instance& one : all)
    printf("| %3u  %-17s %5u %8u          %u:%u     |\n+---------------------------------------------------------+\n",
           gpu.index, one.name.c_str(), one.info.profileId, one.info.id, one.info.placement.start,
           one.info.placement.size);
  return kFine;
}

int list_computes(const Gpus& g, const Gpu& gpu) {
  bool any = false;
  for (const Instance& instance : instances_of(g, gpu.device))
    for (const Compute& one : computes_of(g, instance)) {
      if (!any)
        printf(
            "+--------------------------------------------------------------------+\n"
            "| Compute instances:                                                 |\n"
            "| GPU     GPU       Name             Profile   Instance   Placement  |\n"
            "|       Instance                       ID        ID       Start:Size |\n"
            "|         ID                                                         |\n"
            "|====================================================================|\n");
      any = true;
      printf(
          "| %3u    %3u       %-15s %5u %9u          %u:%u     |\n"
          "+--------------------------------------------------------------------+\n",
          gpu.index, instance.info.id, one.name.c_str(), one.info.profileId, one.info.id, one.info.placement.start,
          one.info.placement.size);
    }
  if (!any)
    printf("No compute instances found: Not Found\n");
  return any ? kFine : kNotFound;
}

// "9,3g.40gb" or "19:3": profiles, each with the memory slice it is to begin at where that is said.
int create(const Gpus& g, const Gpu& gpu, const std::string& wanted, bool with_compute) {
  const auto profiles = profiles_of(g, gpu.device);
  for (const auto& part : split(wanted, ',')) {
    const std::string word(trim(part));
    const auto colon = word.find(':');
    const Profile* profile = find(profiles, word.substr(0, colon));
    const auto start = colon == word.npos ? std::optional<std::uint64_t>() : parse_uint(word.substr(colon + 1));
    if (!profile || (colon != word.npos && !start)) {
      printf("Unable to parse GPU instance profile \"%s\". Run \"nvidia-smi mig -lgip\" to see them.\n", word.c_str());
      return kBadArgument;
    }
    nvmlGpuInstance_t instance = nullptr;
    nvmlReturn_t made = NVML_SUCCESS_;
    if (start) {
      nvmlInstancePlacement_t places[16];
      unsigned int count = 16;
      g.nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu.device, profile->info.id, places, &count);
      const nvmlInstancePlacement_t place{static_cast<unsigned int>(std::min<std::uint64_t>(*start, 255)),
                                          count > 0 ? places[0].size : 0};
      made = g.nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu.device, profile->info.id, &place, &instance);
    } else {
      made = g.nvml.nvmlDeviceCreateGpuInstance(gpu.device, profile->info.id, &instance);
    }
    if (made != NVML_SUCCESS_)
      return failed(g, format("create a GPU instance using profile {}", profile->info.id).c_str(), gpu, made);
    nvmlGpuInstanceInfo_t info{};
    g.nvml.nvmlGpuInstanceGetInfo(instance, &info);
    printf("Successfully created GPU instance ID %2u on GPU %2u using profile %s (ID %2u)\n", info.id, gpu.index,
           profile->name().c_str(), profile->info.id);
    if (!with_compute)
      continue;
    nvmlComputeInstanceInfo_t compute{};
    std::string name;
    if (const auto code = create_whole_compute(g, instance, profile->info.sliceCount, compute, name);
        code != NVML_SUCCESS_)
      return failed(g, "create a compute instance", gpu, code);
    printf("Successfully created compute instance ID %2u on GPU %2u GPU instance ID %2u using profile %s (ID %2u)\n",
           compute.id, gpu.index, info.id, name.c_str(), compute.profileId);
  }
  return kFine;
}

// Every GPU instance gets a compute instance of its own size where it has none.
int create_computes(const Gpus& g, const Gpu& gpu, const std::optional<std::uint64_t>& only) {
  for (const Instance& instance : instances_of(g, gpu.device)) {
    if ((only && *only != instance.info.id) || !computes_of(g, instance).empty())
      continue;
    nvmlComputeInstanceInfo_t made{};
    std::string name;
    unsigned int slices = 0;
    for (const Profile& profile : profiles_of(g, gpu.device))
      if (profile.info.id == instance.info.profileId)
        slices = profile.info.sliceCount;
    if (const auto code = create_whole_compute(g, instance.handle, slices, made, name); code != NVML_SUCCESS_)
      return failed(g, "create a compute instance", gpu, code);
    printf("Successfully created compute instance ID %2u on GPU %2u GPU instance ID %2u using profile %s (ID %2u)\n",
           made.id, gpu.index, instance.info.id, name.c_str(), made.profileId);
  }
  return kFine;
}

int destroy_computes(const Gpus& g, const Gpu& gpu, const std::optional<std::uint64_t>& instance_id,
                     const std::optional<std::uint64_t>& compute_id) {
  bool any = false;
  for (const Instance& instance : instances_of(g, gpu.device))
    for (const Compute& one : computes_of(g, instance)) {
      if ((instance_id && *instance_id != instance.info.id) || (compute_id && *compute_id != one.info.id))
        continue;
      any = true;
      if (const auto code = g.nvml.nvmlComputeInstanceDestroy(one.handle); code != NVML_SUCCESS_)
        return failed(g, "destroy a compute instance", gpu, code);
      printf("Successfully destroyed compute instance ID %2u from GPU %2u GPU instance ID %2u\n", one.info.id,
             gpu.index, instance.info.id);
    }
  if (!any)
    printf("No compute instances found: Not Found\n");
  return any ? kFine : kNotFound;
}

int destroy_instances(const Gpus& g, const Gpu& gpu, const std::optional<std::uint64_t>& only) {
  bool any = false;
  for (const Instance& instance : instances_of(g, gpu.device)) {
    if (only && *only != instance.info.id)
      continue;
    any = true;
    if (const auto code = g.nvml.nvmlGpuInstanceDestroy(instance.handle); code != NVML_SUCCESS_)
      return failed(g, "destroy a GPU instance", gpu, code);
    printf("Successfully destroyed GPU instance ID %2u from GPU %2u\n", instance.info.id, gpu.index);
  }
  if (!any)
    printf("No GPU instances found: Not Found\n");
  return any ? kFine : kNotFound;
}

}  // namespace

int run_mig(const Gpus& g, const std::vector<std::string>& words) {
  std::string verb, wanted;
  bool with_compute = false;
  std::optional<std::uint64_t> gpu_instance, compute_instance;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool takes = word == "-cgi" || word == "-gi" || word == "-ci";
    if (takes && i + 1 == words.size()) {
      printf("Option \"%s\" needs a value.\n", word.c_str());
      return kBadArgument;
    }
    if (word == "-C" || word == "--default-compute-instance") {
      with_compute = true;
    } else if (word == "-gi" || word == "-ci") {
      const auto id = parse_uint(words[++i]);
      if (!id) {
        printf("Invalid instance \"%s\".\n", words[i].c_str());
        return kBadArgument;
      }
      (word == "-gi" ? gpu_instance : compute_instance) = *id;
    } else if (word == "-lgip" || word == "-lgipp" || word == "-lgi" || word == "-lci" || word == "-cgi" ||
               word == "-cci" || word == "-dgi" || word == "-dci") {
      verb = word;
      if (word == "-cgi")
        wanted = words[++i];
    } else {
      printf("Invalid combination of input arguments: \"mig %s\". Run \"nvidia-smi -h\" for help.\n", word.c_str());
      return kBadArgument;
    }
  }
  if (verb.empty()) {
    printf("mig needs one of -lgip, -lgipp, -lgi, -lci, -cgi, -cci, -dgi, -dci.\n");
    return kBadArgument;
  }
  int code = kFine;
  bool any = false;
  for (const Gpu& gpu : g.chosen) {
    if (!is_in_mig_mode(g, gpu))
      continue;
    any = true;
    const int done = verb == "-lgip"    ? list_profiles(g, gpu)
                     : verb == "-lgipp" ? list_placements(g, gpu)
                     : verb == "-lgi"   ? list_instances(g, gpu)
                     : verb == "-lci"   ? list_computes(g, gpu)
                     : verb == "-cgi"   ? create(g, gpu, wanted, with_compute)
                     : verb == "-cci"   ? create_computes(g, gpu, gpu_instance)
                     : verb == "-dci"   ? destroy_computes(g, gpu, gpu_instance, compute_instance)
                                        : destroy_instances(g, gpu, gpu_instance);
    code = done != kFine ? done : code;
  }
  if (!any) {
    printf("No MIG-enabled devices found.\n");
    return kNotFound;
  }
  return code;
}

}  // namespace lockstep::smi
