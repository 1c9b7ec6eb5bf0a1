// nvidia-smi without arguments, -L and -q: NVIDIA's layouts.
#include <stdio.h>

#include <algorithm>

#include "base/text.h"
#include "gpus.h"

namespace lockstep::smi {

namespace {

// The value for a table, without a blank before its unit.
std::string tight(const Gpus& gpus, const Gpu& gpu, const char* name) {
  const Shown shown = property(gpus, gpu, name);
  return shown.known ? shown.text + shown.unit : "N/A";
}

std::string watts(const Gpus& gpus, const Gpu& gpu, const char* name) {
  const Shown shown = property(gpus, gpu, name);
  return shown.known ? shown.text.substr(0, shown.text.find('.')) + "W" : "N/A";
}

std::string on_off(const Gpus& gpus, const Gpu& gpu, const char* name) {
  return property(gpus, gpu, name).text == "Enabled" ? "On" : "Off";
}

// As NVIDIA: the end of a long name matters more than its beginning.
std::string shortened(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - (width - 3));
}

std::string cuda_version(const Gpus& gpus) {
  int version = 0;
  if (gpus.nvml.nvmlSystemGetCudaDriverVersion_v2(&version) != NVML_SUCCESS_)
    return "N/A";
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_version(const Gpus& gpus) {
  char version[80] = "";
  return gpus.nvml.nvmlSystemGetDriverVersion(version, sizeof version) == NVML_SUCCESS_ ? version : "N/A";
}

constexpr const char* kRule =
    "+-----------------------------------------------------------------------------------------+";
constexpr const char* kRows =
    "+-----------------------------------------+------------------------+----------------------+";

void show_gpu(const Gpus& g, const Gpu& gpu) {
  const std::string name = shortened(text_of(g.nvml, g.nvml.nvmlDeviceGetName, gpu.device), 26);
  printf("| %3u  %-26s    %3s  |   %16s %3s | %20s |\n", gpu.index, name.c_str(),
         on_off(g, gpu, "persistence_mode").c_str(), bus_id_of(g.nvml, gpu.device).c_str(),
         on_off(g, gpu, "display_active").c_str(), tight(g, gpu, "ecc.errors.uncorrected.volatile.total").c_str());
  std::string mode = tight(g, gpu, "compute_mode");
  if (mode == "Exclusive_Process")
    mode = "E. Process";
  printf("| %3s  %3sC    %-3s          %5s / %5s | %10s / %9s | %7s  %11s |\n", tight(g, gpu, "fan.speed").c_str(),
         tight(g, gpu, "temperature.gpu").c_str(), tight(g, gpu, "pstate").c_str(), watts(g, gpu, "power.draw").c_str(),
         watts(g, gpu, "power.limit").c_str(), tight(g, gpu, "memory.used").c_str(),
         tight(g, gpu, "memory.total").c_str(), tight(g, gpu, "utilization.gpu").c_str(), mode.c_str());
  printf("| %39s | %22s | %20s |\n%s\n", "", "", tight(g, gpu, "mig.mode.current").c_str(), kRows);
}

struct MigDevice {
  nvmlDevice_t device = nullptr;
  unsigned int number = 0, gpu_instance = 0, compute_instance = 0;
};
std::vector<MigDevice> mig_devices(const Gpus& g, const Gpu& gpu) {
  std::vector<MigDevice> all;
  unsigned int most = 0;
  if (gpu.device)
    g.nvml.nvmlDeviceGetMaxMigDeviceCount(gpu.device, &most);
  for (unsigned int i = 0; i < most; ++i) {
    MigDevice mig;
    mig.number = i;
    if (g.nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu.device, i, &mig.device) != NVML_SUCCESS_)
      continue;
    g.nvml.nvmlDeviceGetGpuInstanceId(mig.device, &mig.gpu_instance);
    g.nvml.nvmlDeviceGetComputeInstanceId(mig.device, &mig.compute_instance);
    all.push_back(mig);
  }
  return all;
}

void show_mig_devices(const Gpus& g) {
  bool any = false;
  for (const Gpu& gpu : g.chosen)
    for (const MigDevice& mig : mig_devices(g, gpu)) {
      if (!any)
        printf(
            "\n%s\n| MIG devices:                                                                            |\n"
            "+------------------+----------------------------------+-----------+-----------------------+\n"
            "| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |\n"
            "|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |\n"
            "|                  |                                  |        ECC|                       |\n"
            "|==================+==================================+===========+=======================|\n",
            kRule);
      any = true;
      nvmlMemory_t memory{};
      nvmlDeviceAttributes_t has{};
      g.nvml.nvmlDeviceGetMemoryInfo(mig.device, &memory);
      g.nvml.nvmlDeviceGetAttributes_v2(mig.device, &has);
      printf("| %2u  %3u %3u %3u  |%16lluMiB / %5lluMiB    | %3u %5u | %2u %3u %4u %4u %4u |\n", gpu.index,
             mig.gpu_instance, mig.compute_instance, mig.number, memory.used >> 20, memory.total >> 20,
             has.multiprocessorCount, 0u, has.sharedCopyEngineCount, has.sharedEncoderCount, has.sharedDecoderCount,
             has.sharedOfaCount, has.sharedJpegCount);
      printf("+------------------+----------------------------------+-----------+-----------------------+\n");
    }
}

void show_processes(const Gpus& g) {
  printf(
      "\n%s\n| Processes:                                                                              |\n"
      "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
      "|        ID   ID                                                               Usage      |\n"
      "|=========================================================================================|\n",
      kRule);
  const auto all = compute_processes(g);
  if (all.empty())
    printf("|  No running processes found                                                             |\n");
  const auto instance = [](unsigned int id) {
    return id == NVML_NO_INSTANCE_ ? std::string("N/A") : std::to_string(id);
  };
  for (const Process& process : all)
    printf("| %4u   %3s  %3s  %14u    %3s   %-34s %10s |\n", process.gpu, instance(process.info.gpuInstanceId).c_str(),
           instance(process.info.computeInstanceId).c_str(), process.info.pid, process.mps ? "M+C" : "C",
           shortened(process_name(g.nvml, process.info.pid), 34).c_str(),
           format("{}MiB", process.info.usedGpuMemory >> 20).c_str());
  printf("%s\n", kRule);
}

struct Line {
  const char *section, *name, *property;  // section: "" = of the GPU itself
};
constexpr Line kLines[] = {
    {"", "Product Name", "name"},
    {"", "Display Active", "display_active"},
    {"", "Persistence Mode", "persistence_mode"},
    {"MIG Mode", "Current", "mig.mode.current"},
    {"MIG Mode", "Pending", "mig.mode.pending"},
    {"", "Serial Number", "serial"},
    {"", "GPU UUID", "uuid"},
    {"", "VBIOS Version", "vbios_version"},
    {"", "GPU Recovery Action", "gpu_recovery_action"},
    {"PCI", "Bus", "pci.bus"},
    {"PCI", "Device", "pci.device"},
    {"PCI", "Domain", "pci.domain"},
    {"PCI", "Device Id", "pci.device_id"},
    {"PCI", "Bus Id", "pci.bus_id"},
    {"", "Fan Speed", "fan.speed"},
    {"", "Performance State", "pstate"},
    {"Clocks Event Reasons", "Idle", "clocks_event_reasons.gpu_idle"},
    {"Clocks Event Reasons", "SW Power Cap", "clocks_event_reasons.sw_power_cap"},
    {"Clocks Event Reasons", "HW Slowdown", "clocks_event_reasons.hw_slowdown"},
    {"Clocks Event Reasons", "HW Thermal Slowdown", "clocks_event_reasons.hw_thermal_slowdown"},
    {"Clocks Event Reasons", "HW Power Brake Slowdown", "clocks_event_reasons.hw_power_brake_slowdown"},
    {"Clocks Event Reasons", "SW Thermal Slowdown", "clocks_event_reasons.sw_thermal_slowdown"},
    {"FB Memory Usage", "Total", "memory.total"},
    {"FB Memory Usage", "Reserved", "memory.reserved"},
    {"FB Memory Usage", "Used", "memory.used"},
    {"FB Memory Usage", "Free", "memory.free"},
    {"", "Compute Mode", "compute_mode"},
    {"Utilization", "GPU", "utilization.gpu"},
    {"Utilization", "Memory", "utilization.memory"},
    {"ECC Mode", "Current", "ecc.mode.current"},
    {"ECC Errors", "Volatile Correctable", "ecc.errors.corrected.volatile.total"},
    {"ECC Errors", "Volatile Uncorrectable", "ecc.errors.uncorrected.volatile.total"},
    {"ECC Errors", "Aggregate Correctable", "ecc.errors.corrected.aggregate.total"},
    {"ECC Errors", "Aggregate Uncorrectable", "ecc.errors.uncorrected.aggregate.total"},
    {"Remapped Rows", "Correctable Error", "remapped_rows.correctable"},
    {"Remapped Rows", "Uncorrectable Error", "remapped_rows.uncorrectable"},
    {"Remapped Rows", "Pending", "remapped_rows.pending"},
    {"Remapped Rows", "Remapping Failure Occurred", "remapped_rows.failure"},
    {"Temperature", "GPU Current Temp", "temperature.gpu"},
    {"GPU Power Readings", "Instantaneous Power Draw", "power.draw.instant"},
    {"GPU Power Readings", "Current Power Limit", "enforced.power.limit"},
    {"GPU Power Readings", "Requested Power Limit", "power.limit"},
    {"GPU Power Readings", "Default Power Limit", "power.default_limit"},
    {"Clocks", "Graphics", "clocks.gr"},
    {"Clocks", "SM", "clocks.sm"},
    {"Clocks", "Memory", "clocks.mem"},
    {"Clocks", "Video", "clocks.video"},
    {"Max Clocks", "Graphics", "clocks.max.gr"},
    {"Max Clocks", "SM", "clocks.max.sm"},
    {"Max Clocks", "Memory", "clocks.max.mem"},
};

// Which words of -d show a section. NVIDIA's PERFORMANCE is ours of why clocks are lower.
bool is_wanted(const std::vector<std::string>& wanted, const std::string& section) {
  if (wanted.empty())
    return true;
  const auto has = [&](const char* word) { return std::find(wanted.begin(), wanted.end(), word) != wanted.end(); };
  return (has("memory") && section == "FB Memory Usage") || (has("utilization") && section == "Utilization") ||
         (has("ecc") && section.rfind("ECC", 0) == 0) || (has("temperature") && section == "Temperature") ||
         (has("power") && section == "GPU Power Readings") ||
         (has("clock") && section.find("Clocks") != section.npos && section != "Clocks Event Reasons") ||
         (has("performance") && section == "Clocks Event Reasons") ||
         (has("row_remapper") && section == "Remapped Rows");
}

void show_lines(const Gpus& g, const Gpu& gpu, const std::vector<std::string>& wanted) {
  std::string section;
  for (const Line& line : kLines) {
    if (!is_wanted(wanted, line.section))
      continue;
    if (section != line.section) {
      section = line.section;
      if (!section.empty())
        printf("    %s\n", section.c_str());
    }
    const Shown shown = property(g, gpu, line.property);
    std::string text = shown.known ? shown.text + (shown.unit.empty() ? "" : " " + shown.unit) : "N/A";
    if (std::string_view(line.property) == "temperature.gpu" && shown.known)
      text += " C";
    const int indent = section.empty() ? 4 : 8;
    printf("%*s%-*s: %s\n", indent, "", 50 - indent, line.name, text.c_str());
  }
}

void show_full_processes(const Gpus& g, const Gpu& gpu) {
  Gpus one{g.nvml, {gpu}, g.all};
  const auto all = compute_processes(one);
  printf("    %-46s: %s\n", "Processes", all.empty() ? "None" : "");
  for (const Process& process : all)
    printf(
        "        Process ID                        : %u\n            Type                          : %s\n"
        "            Name                          : %s\n            Used GPU Memory               : %llu MiB\n",
        process.info.pid, process.mps ? "M+C" : "C", process_name(g.nvml, process.info.pid).c_str(),
        process.info.usedGpuMemory >> 20);
}

}  // namespace

int list_gpus(const Gpus& g) {
  int code = kFine;
  for (const Gpu& gpu : g.chosen) {
    if (!gpu.device) {
      code = exit_code_of(gpu.error);
      continue;
    }
    printf("GPU %u: %s (UUID: %s)\n", gpu.index, text_of(g.nvml, g.nvml.nvmlDeviceGetName, gpu.device).c_str(),
           text_of(g.nvml, g.nvml.nvmlDeviceGetUUID, gpu.device).c_str());
    for (const MigDevice& mig : mig_devices(g, gpu)) {
      const std::string name = text_of(g.nvml, g.nvml.nvmlDeviceGetName, mig.device);
      const auto profile = name.rfind("MIG ");
      printf("  MIG %-11s Device %2u: (UUID: %s)\n", profile == name.npos ? "" : name.substr(profile + 4).c_str(),
             mig.number, text_of(g.nvml, g.nvml.nvmlDeviceGetUUID, mig.device).c_str());
    }
  }
  return code;
}

int show_table(const Gpus& g) {
  printf("%s\n%s\n", local_time("%a %b %e %H:%M:%S %Y").c_str(), kRule);
  printf("| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", driver_version(g).c_str(),
         driver_version(g).c_str(), cuda_version(g).c_str());
  printf(
      "|-----------------------------------------+------------------------+----------------------+\n"
      "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
      "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
      "|                                         |                        |               MIG M. |\n"
      "|=========================================+========================+======================|\n");
  int code = kFine;
  for (const Gpu& gpu : g.chosen)
    if (gpu.device)
      show_gpu(g, gpu);
    else
      code = exit_code_of(gpu.error);
  show_mig_devices(g);
  show_processes(g);
  return code;
}

int show_everything(const Gpus& g, const std::vector<std::string>& wanted) {
  printf("\n==============NVSMI LOG==============\n\n%-50s: %s\n%-50s: %s\n%-50s: %s\n\n%-50s: %u\n", "Timestamp",
         local_time("%a %b %e %H:%M:%S %Y").c_str(), "Driver Version", driver_version(g).c_str(), "CUDA Version",
         cuda_version(g).c_str(), "Attached GPUs", g.all);
  int code = kFine;
  for (const Gpu& gpu : g.chosen) {
    if (!gpu.device) {
      code = exit_code_of(gpu.error);
      continue;
    }
    printf("GPU %s\n", bus_id_of(g.nvml, gpu.device).c_str());
    show_lines(g, gpu, wanted);
    if (wanted.empty())
      show_full_processes(g, gpu);
    printf("\n");
  }
  return code;
}

}  // namespace lockstep::smi
